"""What a proof accepts and what it calls a problem."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.verify.proof import Exchange, Proof, Transfer, proof_document

GOOD = Proof(
    mode="disaggregated",
    exchanges=(Exchange(40, "abc", "abc", "prefiller-0", "decoder-0"),),
    transfer=Transfer(39, 39, "counter"),
    reference="decoder-0 without a transfer",
    versions={"decoder-0": "0.32.0"},
    simulated=False,
)


def test_a_moved_and_equal_exchange_is_proven() -> None:
    assert GOOD.ok and proof_document(GOOD)["ok"]


@pytest.mark.parametrize(
    ("proof", "problem"),
    [
        (
            replace(GOOD, transfer=Transfer(39, 0, "counter")),
            "the KV did not move: decoders took 0 of at least 39",
        ),
        (replace(GOOD, transfer=Transfer(39, 38, "counter")), "took 38 of at least 39"),
        (replace(GOOD, transfer=Transfer(39, None, "no counter")), "nothing says whether the KV moved"),
        (replace(GOOD, exchanges=(replace(GOOD.exchanges[0], text="abd"),)), "was answered differently"),
        (replace(GOOD, simulated=True), "calls itself simulated"),
    ],
)
def test_what_is_wrong_is_named(proof: Proof, problem: str) -> None:
    assert not proof.ok
    assert problem in " ".join(proof.problems)


def test_a_simulator_that_was_asked_for_is_no_problem() -> None:
    assert replace(GOOD, simulated=True, may_simulate=True).ok


def test_an_aggregated_cluster_moves_nothing() -> None:
    assert replace(GOOD, mode="aggregated", transfer=None).ok
