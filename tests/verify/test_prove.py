"""A proof of clusters that are whole, broken or silent, over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pdctl.errors import HostError, UnhealthyError
from pdctl.topology import Topology
from pdctl.verify import Proof, prove
from tests.verify.doors import COMPLETIONS, TEXT, Answer, cluster

COUNTER = "vllm:external_prefix_cache_hits_total"
DECODER = {COMPLETIONS: (200, TEXT)}


@pytest.fixture
def gone() -> Iterator[int]:
    """A port that nobody answers on and nobody else can take."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def proof_of(topology: Topology, **more: Any) -> Proof:
    return prove(topology, Path("/"), prompts=2, seed=0, **more)


def test_a_counter_that_grew_by_the_prompts_proves_the_transfer() -> None:
    asked: list[int] = []

    def complete(body: Any) -> Answer:
        asked.append(len(body["prompt"]))
        return 200, TEXT

    decoder = {**DECODER, "/metrics": lambda _: (200, f"{COUNTER} {7 + sum(asked)}.0\n")}
    with cluster({COMPLETIONS: complete}, {"prefiller-0": {}, "decoder-0": decoder}) as topology:
        proof = proof_of(topology)
    assert proof.ok and proof.transfer is not None
    assert (proof.transfer.moved, proof.transfer.expected) == (sum(asked), sum(asked) - 2)
    assert (proof.transfer.source, proof.transfer.unit) == (COUNTER, "tokens")
    assert [(e.decoder, e.equal) for e in proof.exchanges] == [("decoder-0", True)] * 2


def test_an_aggregated_cluster_serves_and_has_nothing_to_compare_with() -> None:
    with cluster({}, {"server-0": {}, "server-1": {}}) as topology:
        proof = proof_of(topology)
    assert proof.ok
    assert (proof.mode, proof.transfer, {e.equal for e in proof.exchanges}) == ("aggregated", None, {None})


def test_an_aggregated_cluster_is_the_reference_of_another() -> None:
    other = {COMPLETIONS: (200, {"choices": [{"text": "abd"}]})}
    decoder = {"/metrics": (200, f"{COUNTER} 0.0\n")}
    with (
        cluster(other, {"server-0": {}}) as against,
        cluster({}, {"prefiller-0": {}, "decoder-0": decoder}) as topology,
    ):
        proof = proof_of(topology, against=against)
    assert "was answered differently from cluster `stub`" in proof.problems[0]
    assert "decoders took 0 of at least" in proof.problems[-1]


def test_one_of_two_decoders_that_is_gone_is_an_error_at_its_place(gone: int) -> None:
    engines = {"prefiller-0": {}, "decoder-0": DECODER, "decoder-1": gone}
    with cluster({}, engines) as topology, pytest.raises(UnhealthyError) as caught:
        proof_of(topology)
    assert str(caught.value).startswith("here/decoder-1: GET /version failed: ")
    assert caught.value.hint == "`pdctl logs decoder-1` shows why"


# What the proxy says (proxy/lmcache.py, proxy/legs.py).
LATE = (
    "the KV of this prompt did not arrive: 0 of 1 notices from prefiller prefiller-1 about decoder decoder-0"
    " within 30 s, nothing from any rank"
)


@pytest.mark.parametrize(
    ("status", "said", "message", "logs"),
    [
        (504, LATE, f"here/proxy: {LATE}", "prefiller-1"),
        (502, "decoder decoder-0 answered with status 500", "answered 502: decoder decoder-0", "decoder-0"),
        (503, "no healthy prefiller", "answered 503: no healthy prefiller", "proxy"),
    ],
)
def test_what_the_proxy_refuses_leads_to_the_journal_that_says_why(
    status: int, said: str, message: str, logs: str
) -> None:
    decoder = {**DECODER, "/metrics": (200, f"{COUNTER} 0.0\n")}
    proxy = {COMPLETIONS: (status, {"error": {"message": said, "type": "x", "code": status}})}
    engines = {"prefiller-0": {}, "prefiller-1": {}, "decoder-0": decoder}
    with cluster(proxy, engines) as topology, pytest.raises(UnhealthyError) as caught:
        proof_of(topology)
    assert message in str(caught.value)
    assert f"`pdctl logs {logs}`" in str(caught.value.hint)


@pytest.mark.parametrize("page", [(200, "no JSON\x1b[2J"), (200, {"choices": []})])
def test_an_answer_that_makes_no_sense_is_shown(page: Answer) -> None:
    decoder = {**DECODER, "/metrics": (200, f"{COUNTER} 0.0\n")}
    engines = {"prefiller-0": {}, "decoder-0": decoder}
    with cluster({COMPLETIONS: page}, engines) as topology, pytest.raises(UnhealthyError) as caught:
        proof_of(topology)
    assert caught.value.where == "here/proxy" and caught.value.hint
    assert caught.value.message.isprintable()
    assert "JSON: no JSON" in caught.value.message or "holds no text" in caught.value.message


def test_a_journal_that_cannot_be_read_is_an_error_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    engines = {"prefiller-0": {}, "decoder-0": DECODER}
    with cluster({}, engines, vllm="0.11.0") as topology, pytest.raises(HostError) as caught:
        proof_of(topology)
    assert (
        str(caught.value)
        == "here: the journal of pdctl-stub-decoder-0.service cannot be read: journalctl: not found"
    )
