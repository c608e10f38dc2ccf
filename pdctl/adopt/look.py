"""Reach of hosts -> what each says: one read-only look at each, all at once."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pdctl.adopt.observed import Answer, read_answer
from pdctl.errors import ErrorGroup, HostError, PdctlError
from pdctl.hosts.complaints import complaint
from pdctl.hosts.gateways import Gateways
from pdctl.hosts.parallel import on_each
from pdctl.hosts.probe_source import probe_answer, program
from pdctl.hosts.reach import Reach
from pdctl.hosts.session import open_session
from pdctl.knowledge.secrecy import LIKE_A_TOKEN, NAMES, REAL_TOKEN

# In the order of their imports.
MODULES = (
    "pdctl_rows",
    "pdctl_observe_pci",
    "pdctl_observe_facts",
    "pdctl_sockets",
    "pdctl_adopt_secrets",
    "pdctl_adopt_processes",
    "pdctl_adopt_runtimes",
    "pdctl_adopt",
)
TIMEOUT_S = 120.0
# A real token anywhere; what only begins like one if it is a word by itself, and no part of a path.
TOKENS = rf"(?:{REAL_TOKEN})|(?<![\w/.-])(?:{LIKE_A_TOKEN})(?![\w/-])"
REQUEST = {"names": NAMES, "tokens": TOKENS}


def look(reaches: Mapping[str, Reach]) -> dict[str, Answer]:
    """What each host says, in the order given. Raises ErrorGroup if any does not answer."""
    answers: dict[str, Answer] = {}
    failures: dict[str, PdctlError] = {}
    with Gateways() as gateways:
        for name, outcome in on_each(reaches, lambda at: _look(at, gateways)):
            if isinstance(outcome, PdctlError):
                failures[name] = outcome
            else:
                answers[name] = outcome
    if failures:  # a draft of half a deployment would be a wrong one
        raise ErrorGroup("some hosts could not be looked at", [failures[n] for n in reaches if n in failures])
    return {name: answers[name] for name in reaches}


def look_program() -> str:
    """The program that a host is given; it prints its answer and changes nothing."""
    return program(MODULES, ("pdctl_adopt", "look"), REQUEST)


def _look(at: Reach, gateways: Gateways) -> Answer:
    with open_session(at, gateways) as session:
        result = session.run(look_program().encode(), timeout=TIMEOUT_S)
    if known := complaint(at, session.user, result):
        raise known
    try:
        data = probe_answer(result.out.decode(errors="replace"))
    except (HostError, json.JSONDecodeError):
        said = result.last_words or "nothing"
        raise HostError(f"looking at it failed (exit status {result.rc}): {said}", where=at.name) from None
    return read_answer(at.name, data)
