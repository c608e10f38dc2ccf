"""Text in any field of the spec arrives exactly where the field leads, and changes nothing else.

One law for all fields: what a host would see with a hostile text is what it sees with a harmless one, with
the one put in place of the other. A field that does not take the text says so as an error of its form.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from pydantic import ValidationError

from pdctl.desired import desire
from pdctl.hosts.ansible_vars import ansible_host_vars
from pdctl.hosts.reach import reach
from pdctl.spec import rules
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.suppress import suppressed
from pdctl.spec.rules.table import TABLE
from pdctl.state import File, Package, Resource, State, Unit, Venv
from pdctl.topology import Topology
from pdctl.topology.resolve import survey
from tests.spec.mutations import EXAMPLES, at, paths, put, values_of
from tests.units import reader
from tests.units.hostile import HOSTILE

HARMLESS = "zqharmlesszq"
# Each field meets some of the texts, and all of them in the soak.
EVERY = 1 if os.environ.get("PDCTL_SOAK") else 8
# Beside those of the units' tests: what could end a line, and letters that look like others.
TEXTS = [
    *HOSTILE,
    "a\nExecStartPre=/bin/sh -c id",
    "x\r\ny",
    "a\0b",
    "\u0430dmin",  # Cyrillic
    "ｖｌｌｍ",
    "\u200bx",
    "{{ lookup('pipe', 'id') }}",
    "$(id)`id`%n${HOME}",
    "' ; touch /tmp/x ; '",
    '" --flag "',
    "../../etc/passwd",
    "%(asctime)s",
    "{0.__class__}",
]
# Refusals that say that the text has the wrong form, or that it names something which is not there.
OF_FORM = ("TYPE", "SECRET", "ARG", "DRIVER", "PIN")
SPECS = [values_of(text) for text in EXAMPLES]
LEAVES = [
    (number, path)
    for number, values in enumerate(SPECS)
    for path in paths(values)
    if isinstance(at(values, path), str)
]


def judged(values: Any) -> tuple[Topology | None, set[str]]:
    """As `judge`, but for the text of the file, whose reading has tests of its own."""
    try:
        cluster = Cluster.model_validate(values)
    except ValidationError:
        return None, {"TYPE001"}
    errors = {finding.rule for finding in rules.findings(cluster) if is_error(cluster, finding)}
    if errors:
        return None, errors
    topology, findings = survey(cluster)
    errors = {finding.rule for finding in findings if is_error(cluster, finding)}
    return (None, errors) if errors else (topology, set())


def is_error(cluster: Cluster, finding: Finding) -> bool:
    return TABLE[finding.rule].severity == "error" and finding.rule not in suppressed(cluster)


def with_text(number: int, path: tuple[str | int, ...], text: str, whole: bool) -> Any:
    """The spec with the text as the value, or at the end of it; the host's name everywhere it is named."""
    old = at(SPECS[number], path)
    new = text if whole else old + text
    if path[0] == "hosts" and path[-1] == "name":
        return renamed(SPECS[number], old, new)
    return put(SPECS[number], path, new)


def renamed(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: renamed(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, old, new) for item in value]
    return new if value == old else value


@pytest.mark.parametrize("leaf", range(len(LEAVES)), ids=[".".join(map(str, p)) for _, p in LEAVES])
def test_text_in_a_field_arrives_as_it_is_or_is_refused(leaf: int) -> None:
    number, path = LEAVES[leaf]
    for whole in (True, False):
        harmless, _ = judged(with_text(number, path, HARMLESS, whole))
        for text in TEXTS[leaf % EVERY :: EVERY]:
            if text.startswith("~") and path[0] == "ssh":
                continue  # the home folder, as in a shell
            hostile, rules = judged(with_text(number, path, text, whole))
            if hostile is None:
                assert harmless is None or any(rule.startswith(OF_FORM) for rule in rules), (text, rules)
            elif harmless is not None:
                assert seen(hostile) == replaced(seen(harmless), text), text


def test_most_fields_take_most_texts_or_none() -> None:
    """So the law above is not empty: these fields are free, and each text gets through somewhere."""
    free = {("model", "path"), ("model", "served_name"), ("serving", "prefillers", "extra_args", 1)}
    taken: dict[str, int] = dict.fromkeys(TEXTS, 0)
    for path in free:
        for text in TEXTS:
            taken[text] += judged(with_text(0, path, text, False))[0] is not None
    refused = [text for text, count in taken.items() if not count]
    assert all(not text.isprintable() or "\u202e" in text for text in refused), refused
    assert len(refused) < 8


def replaced(value: Any, text: str) -> Any:
    if isinstance(value, str):
        return value.replace(HARMLESS, text)
    if isinstance(value, dict):
        return {replaced(key, text): replaced(item, text) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replaced(item, text) for item in value]
    return value


def seen(topology: Topology) -> dict[str, Any]:
    """What hosts and Ansible get, read back by nothing of pdctl, without digests."""
    state = desire(topology)
    found: dict[str, Any] = {f"{key.host} {name_of(r)}": list(parts(r, state)) for key, r in state.items()}
    for host in topology.spec.hosts:
        variables = ansible_host_vars(reach(topology.spec, host, Path("/specs")), root=False)
        words = shlex.split(variables.pop("ansible_ssh_common_args", ""))
        found[f"ansible {host.name}"] = [variables, [option(word) for word in words]]
    return found


def name_of(resource: Resource) -> str:
    return resource.path.rpartition("-")[0] if isinstance(resource, Venv) else resource.id


def option(word: str) -> Any:
    """As ssh reads it: a command has words of its own, a file stands in quotes, `%%` is a `%`."""
    name, _, value = word.partition("=")
    if name == "ProxyCommand":
        return [name, *(option(inner) for inner in shlex.split(value.replace("%%", "%")))]
    if name in ("IdentityFile", "UserKnownHostsFile"):
        assert value[0] == value[-1] == '"' and '"' not in value[1:-1]
        return [name, value[1:-1].replace("%%", "%")]
    return word


def parts(resource: Resource, state: State) -> Iterator[Any]:
    if isinstance(resource, File):
        yield [resource.owner, resource.mode, [list(pair) for pair in resource.secret_env]]
        if resource.content is not None:
            yield content(resource.path, resource.content.decode())
    elif isinstance(resource, Unit):
        yield [list(map(stable, resource.argv)), [list(pair) for pair in resource.environment]]
        yield [list(resource.secret_names), resource.health_url, resource.instance]
    elif isinstance(resource, Package):
        yield [resource.version, resource.hold]
    elif isinstance(resource, Venv):
        yield [resource.python, list(resource.requirements)]


def content(path: str, text: str) -> Any:
    if path.endswith(".service"):
        entries = reader.sections(text)
        rest = {
            name: [
                [key, value] for key, value in rows if key not in ("ExecStart", "Environment", "Description")
            ]
            for name, rows in entries.items()
        }
        title = reader.without_specifiers(reader.values(text, "Unit", "Description")[0])
        return [list(map(stable, reader.exec_start(text))), title, rest]
    if path.endswith(".env"):
        return reader.env_file(text)
    if path.endswith(".json"):
        return json.loads(text)
    if path.endswith(".yaml"):
        return yaml.safe_load(text)
    return text.splitlines()


def stable(word: str) -> str:
    """Paths of runtimes hold the digest of what is in them."""
    head, mark, tail = word.partition("/opt/pdctl/venvs/")
    return f"{head}{mark}{tail.split('-')[0]}/{tail.partition('/')[2]}" if mark else word
