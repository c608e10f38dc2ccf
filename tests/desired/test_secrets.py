"""No value of a secret is in anything that is planned, shown, recorded or put into a world-readable file."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pdctl.desired import desire
from pdctl.hosts.secrets import secrets_digest
from pdctl.plan import make_plan
from pdctl.plan.document import plan_document
from pdctl.state import File, Key, Resource, Unit
from pdctl.state.codec import resource_to_json
from pdctl.topology import Topology, resolve
from tests.desired.rendered import read
from tests.topology.specs import cluster, serving

TOKEN = "hf_" + "kQ7zW" * 6
PASSPHRASE = "correct horse battery staple"
OLD = "what the host had before"
SECRETS_FILE = "/etc/pdctl/chat/secrets.env"


@dataclass(frozen=True)
class Made:
    """A cluster with two secrets, resolved and desired as `pdctl apply` does it."""

    topology: Topology
    state: dict[Key, Resource]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    return make(tmp_path, monkeypatch, TOKEN)


def make(folder: Path, monkeypatch: pytest.MonkeyPatch, token: str, **pool: Any) -> Made:
    monkeypatch.setenv("THE_TOKEN", token)
    (folder / "key").write_text(PASSPHRASE + "\n")
    secrets = {"HF_TOKEN": {"from_env": "THE_TOKEN"}, "VLLM_API_KEY": {"from_file": "key"}}
    topology = resolve(
        cluster(secrets=secrets, serving=serving(1, 1, 1) | ({"decoders": pool} if pool else {}))
    )
    return Made(topology, desire(topology, secrets_digest(topology.spec, folder)))


def places(made: Made) -> Iterator[tuple[str, str]]:
    """Every text that leaves the function: files, JSON in its fullest form, representations, the plan."""
    for key, resource in made.state.items():
        yield f"{key} as text", repr(resource)
        yield f"{key} as JSON", json.dumps(resource_to_json(resource, full=True), ensure_ascii=False)
        if isinstance(resource, File) and resource.content is not None:
            yield f"{key}'s bytes", resource.content.decode()
        if isinstance(resource, Unit):
            yield f"{key}'s words", "\n".join((*resource.argv, *map("=".join, resource.environment)))
    had = before(made.state)
    contents = {key: file.content for key, file in had.items() if file.content is not None}
    plan = make_plan(made.topology, made.state, had, {}, contents=contents)
    yield "the plan", json.dumps(plan_document(plan), ensure_ascii=False)
    yield "the plan as text", repr(plan)
    yield "the topology", repr(made.topology)


def before(state: dict[Key, Resource]) -> dict[Key, File]:
    """A host where each file is another, so that the plan shows all texts; its secret was another too."""
    had = {True: f'HF_TOKEN="{OLD}"\n'.encode(), False: b"something else\n"}
    return {
        key: replace(r, digest="sha256:0", secret=False, secret_env=(), content=had[r.secret])
        for key, r in state.items()
        if isinstance(r, File)
    }


def leaks(made: Made, secret: str) -> list[str]:
    """Where the secret stands, plain, as in a JSON text, or in base64 at any offset."""
    forms = {secret, json.dumps(secret)[1:-1], *encoded(secret)}
    return [where for where, text in places(made) if any(form in text for form in forms)]


def encoded(secret: str) -> set[str]:
    """The middle of its base64 form, which is the same wherever it begins."""
    shifted = (base64.b64encode(b"." * shift + secret.encode()).decode() for shift in range(3))
    return {text[4:-4] for text in shifted}


@pytest.mark.parametrize("secret", [TOKEN, PASSPHRASE, OLD])
def test_no_value_is_anywhere(made: Made, secret: str) -> None:
    assert leaks(made, secret) == []


@pytest.mark.parametrize("pool", [{"env": {"X": PASSPHRASE}}, {"extra_args": [f"--x={PASSPHRASE}"]}])
def test_the_search_finds_a_planted_value(
    pool: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = leaks(make(tmp_path, monkeypatch, TOKEN, **pool), PASSPHRASE)
    for end in ("'s bytes", "'s words", " as JSON", "the plan", "the topology"):
        assert any(where.endswith(end) for where in found), end


@pytest.mark.parametrize("shift", range(3))
def test_the_search_finds_a_value_in_base64(shift: int, made: Made) -> None:
    planted = File("/etc/x", "sha256:0", content=b"x" * shift + TOKEN.encode() + b"yz")
    found = leaks(Made(made.topology, {Key("gpu01", planted.id): planted}), TOKEN)
    assert any(where.endswith("as JSON") for where in found)


def test_the_secrets_file_is_roots_alone_and_names_only_its_sources(made: Made) -> None:
    [file] = [r for r in made.state.values() if isinstance(r, File) and r.secret]
    assert (file.path, file.owner, file.mode) == (SECRETS_FILE, "root", "0600")
    assert file.content is None and file.digest.startswith("scrypt:")
    assert file.secret_env == (("HF_TOKEN", "env:THE_TOKEN"), ("VLLM_API_KEY", "file:key"))


def test_engines_read_the_secrets_file_last_and_the_proxy_not_at_all(made: Made) -> None:
    for engine in read(made.state).engines.values():
        assert engine.setting("Service", "EnvironmentFile")[1:] == [SECRETS_FILE]
        assert not engine.env.keys() & {"HF_TOKEN", "VLLM_API_KEY"}
    texts = {key.id: text for key, text in read(made.state).texts().items()}
    assert SECRETS_FILE not in texts["file:/etc/systemd/system/pdctl-chat-proxy.service"]


def test_another_value_is_a_change_that_restarts_engines_and_nothing_else(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make(tmp_path, monkeypatch, "hf_" + "B" * 30)
    changed = {key.id for key, resource in other.state.items() if made.state[key] != resource}
    units = {f"unit:pdctl-chat-{name}.service" for name in ("prefiller-0", "decoder-0")}
    files = {f"file:/etc/systemd/system/{unit.removeprefix('unit:')}" for unit in units}
    assert changed == units | files | {f"file:{SECRETS_FILE}"}


def test_without_secrets_there_is_no_such_file() -> None:
    state = desire(resolve(cluster()))
    assert not [r for r in state.values() if isinstance(r, File) and r.secret]
    assert "secrets" not in "".join(read(state).texts().values())
