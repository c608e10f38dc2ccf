"""A deployment set up by hand on two hosts becomes a spec, without a touch and without a secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pdctl.lab import Lab
from pdctl.spec.load import check
from pdctl.topology import resolve
from pdctl.topology.model import Role
from tests.hosts.byhand import SECRETS, set_up
from tests.hosts.line import Line, Ran, line_on_hosts
from tests.hosts.plays import inside, snapshot

pytestmark = pytest.mark.hosts
HOSTS = ("h1=198.18.0.10", "h2=198.18.0.11")


@dataclass
class Story:
    line: Line
    before: list[list[str]]
    after: list[list[str]]
    ran: Ran
    text: str


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with line_on_hosts(tmp_path_factory) as line:
        set_up(line.lab)
        before = [everything(line.lab, host) for host in ("h1", "h2")]
        options = ("--ssh-config", str(line.lab.ssh_config), "--cluster", "chat", "--out", "chat.yaml")
        ran = line.pdctl("adopt", *HOSTS, *options, "--json").must()
        after = [everything(line.lab, host) for host in ("h1", "h2")]
        yield Story(line, before, after, ran, (line.folder / "chat.yaml").read_text())


def everything(lab: Lab, host: str) -> list[str]:
    """Files, packages and units, and the runs of the hand-made units."""
    runs = "systemctl show -p MainPID,InvocationID,NRestarts vllm-prefill pd-proxy decode-1"
    return [*snapshot(lab, host), *inside(lab, host, runs).splitlines()]


def found(text: str) -> list[str]:
    return [name for name, value in SECRETS.items() if value in text]


def test_the_draft_is_what_runs(story: Story) -> None:
    print(story.text, story.ran.err)
    reading = check(story.line.folder / "chat.yaml")
    topology = resolve(reading.cluster)
    [prefiller], decoders = topology.of(Role.PREFILLER), topology.of(Role.DECODER)
    assert (prefiller.host, prefiller.ports.http) == ("h1", 8100)
    assert {(d.host, d.ports.http, d.ports.init, d.ports.alloc) for d in decoders} == {
        ("h2", 8200, (7310,), (7410,)),
        ("h2", 8201, (7311,), (7411,)),
    }
    assert (topology.proxy.host, topology.proxy.http, topology.proxy.notification) == ("h1", 9200, 7600)
    assert topology.kv is not None and topology.kv.chunk_size == 32
    assert topology.served_name == "tiny" and topology.spec.engine.kind == "simulator"
    serving = topology.spec.serving
    assert serving.prefillers is not None and serving.decoders is not None
    assert serving.prefillers.max_num_seqs == 16 and serving.prefillers.extra_args == ["--seed", "7"]
    assert serving.decoders.env == {"NCCL_DEBUG": "WARN"}


def test_its_doubts_are_told_in_the_file_and_on_stderr(story: Story) -> None:
    for text in (story.text, story.ran.err):
        assert "chunk_size differs: 32 (h1/vllm-prefill.service, h2/decode-1.service); 64 (h2/pid" in text
        assert "SITE_NAME" in text and "remote_url" in text
    assert {row["process"] for row in story.ran.json["found"]} >= {"vllm-prefill.service", "decode-1.service"}
    assert story.ran.json["stop_first"]["h1"] == [
        "systemctl disable --now vllm-prefill.service",
        "systemctl disable --now pd-proxy.service",
    ]


def test_nothing_on_the_hosts_has_changed(story: Story) -> None:
    assert story.after == story.before


def test_no_secret_is_in_the_draft_or_in_anything_printed(story: Story) -> None:
    ours = "/etc/systemd/system/*.service $(find /opt/hand -maxdepth 1 -type f)"
    on_hosts = "".join(inside(story.line.lab, host, f"cat {ours}") for host in ("h1", "h2"))
    assert found(on_hosts) == list(SECRETS), "the search itself must find them"
    kept = [p.read_text(errors="replace") for p in story.line.folder.rglob("*") if p.is_file()]
    assert found("\n".join([*kept, story.ran.out, story.ran.err])) == []
    names = {"HF_TOKEN", "VLLM_API_KEY", "WANDB_API_KEY"}
    assert story.ran.json["spec"]["secrets"] == {name: {"from_env": name} for name in sorted(names)}


def test_a_second_draft_does_not_write_over_the_first(story: Story) -> None:
    options = ("--ssh-config", str(story.line.lab.ssh_config), "--out", "chat.yaml")
    ran = story.line.pdctl("adopt", *HOSTS, *options).must(1)
    assert "is there already" in ran.err and "--force" in ran.err
    again = story.line.pdctl("adopt", "--from", "chat.yaml", "--out", "again.yaml").must()
    assert "Wrote again.yaml" in again.out
    assert (story.line.folder / "again.yaml").read_text() == story.text


def test_the_plan_of_the_draft_creates_and_the_hand_over_serves(story: Story) -> None:
    line, secrets = story.line, dict.fromkeys(story.ran.json["spec"]["secrets"], "x")
    shown = line.pdctl("diff", "chat.yaml", "--brief", env=secrets)
    print(shown.out, shown.err)
    plan = line.pdctl("diff", "chat.yaml", "--json", env=secrets).must().json
    assert {change["action"] for change in plan["changes"]} == {"create"} and plan["drift"] == []
    for host, commands in story.ran.json["stop_first"].items():
        for command in commands:
            inside(line.lab, host, command)
    line.pdctl("apply", "chat.yaml", "--yes", "--no-verify", env=secrets).must()
    done = line.pdctl("status", "chat.yaml", "--json", env=secrets).must().json
    assert done["healthy"], json.dumps(done)
    line.pdctl("adopt", "--from", "chat.yaml", "--out", "back.yaml", env=secrets).must()
    line.pdctl("diff", "back.yaml", "--exit-code", env=secrets).must(0)
