"""Sends real requests through the proxy and looks at what the engines say about them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pdctl.errors import UnhealthyError
from pdctl.hosts.doors import Doors
from pdctl.hosts.timing import laps
from pdctl.topology.model import Role, Topology
from pdctl.verify.complaints import complaints
from pdctl.verify.doors import ask_all, engine, front, refused
from pdctl.verify.http import Client, StatusError
from pdctl.verify.proof import Exchange, Proof
from pdctl.verify.ready import wait_ready
from pdctl.verify.watch import watch

# Prompt lengths in tokens: below a chunk, around one, several; the last is cut to the model's length.
LENGTHS = (5, 40, 130, 257, 511, 900)
OUTPUT_TOKENS = 16
# Token ids that every vocabulary has and no tokenizer gives a special meaning.
TOKEN_IDS = range(300, 1000)


def prove(
    topology: Topology, folder: Path, *, prompts: int, seed: int, against: Topology | None = None
) -> Proof:
    """Ask `prompts` greedy completions through the proxy, and the same of a reference.

    The reference is the proxy of `against` (an undisaggregated cluster with the same engine), else a decoder
    asked directly: without a transfer it computes the whole prompt itself. Raises UnhealthyError when
    something does not answer, UnreachableError when a host does not.
    """
    with _doors(topology, folder) as doors, _reference(topology, doors, folder, against) as (name, reference):
        door = front(topology, doors)
        with laps("wait until ready"):
            wait_ready(door)
        with laps("ask engines"):
            versions = _versions(topology, doors)
            transferred = watch(topology, doors)
        asked = _prompts(topology, prompts, seed)
        with laps("requests"):
            answers = [_through(door, topology, prompt) for prompt in asked]
        with laps("see the KV moved"):
            transfer = transferred([len(prompt) for prompt in asked]) if transferred else None
        exchanges = tuple(
            Exchange(
                prompt_tokens=len(prompt),
                text=text,
                reference=_complete(reference, topology, prompt)[0] if reference else None,
                prefiller=headers.get("x-pdctl-prefiller", ""),
                decoder=headers.get("x-pdctl-decoder", ""),
            )
            for prompt, (text, headers) in zip(asked, answers, strict=True)
        )
        with laps("read journals"):
            warned = complaints(topology, doors, topology.instances)
    simulated = any("simulated" in version for version in versions.values())
    may_simulate = topology.spec.engine.kind == "simulator"
    return Proof(
        topology.spec.serving.mode, exchanges, transfer, name, versions, simulated, may_simulate, warned
    )


@contextmanager
def _doors(topology: Topology, folder: Path) -> Iterator[Doors]:
    """Opened all at once: whoever asks for them later would do it one after another."""
    with Doors(topology, folder) as doors:
        with laps("open ways"):
            doors.open([topology.proxy.host, *(i.host for i in topology.instances)])
        yield doors


@contextmanager
def _reference(
    topology: Topology, doors: Doors, folder: Path, against: Topology | None
) -> Iterator[tuple[str, Client | None]]:
    if against is not None:
        with Doors(against, folder) as others:
            yield f"cluster `{against.cluster}`", front(against, others)
        return
    decoders = topology.of(Role.DECODER)
    if not decoders:
        yield "", None
        return
    yield f"{decoders[0].name} without a transfer", engine(doors, decoders[0])


def _versions(topology: Topology, doors: Doors) -> dict[str, str]:
    return ask_all(doors, topology.instances, _version)


def _version(client: Client) -> str:
    answer = client.get_json("/version")
    version = str(answer.get("version"))
    marked = answer.get("simulated") and "simulated" not in version
    return f"{version} simulated" if marked else version


def _prompts(topology: Topology, count: int, seed: int) -> list[list[int]]:
    chooser = random.Random(seed)
    room = max(1, (topology.max_model_len or 4096) - OUTPUT_TOKENS - 1)
    lengths = [min(LENGTHS[i % len(LENGTHS)], room) for i in range(1, count + 1)]
    return [[chooser.choice(TOKEN_IDS) for _ in range(length)] for length in lengths]


def _through(door: Client, topology: Topology, prompt: Sequence[int]) -> tuple[str, Any]:
    try:
        return _complete(door, topology, prompt)
    except StatusError as error:
        raise refused(error, topology) from None


def _complete(client: Client, topology: Topology, prompt: Sequence[int]) -> tuple[str, Any]:
    body = {
        "model": topology.served_name,
        "prompt": list(prompt),
        "max_tokens": OUTPUT_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }
    answer, headers = client.post("/v1/completions", body)
    try:
        return str(answer["choices"][0]["text"]), headers
    except (KeyError, IndexError, TypeError):
        said = f"the answer holds no text: {str(answer)[:200]}"
        raise UnhealthyError(said, where=client.name, hint=client.hint) from None
