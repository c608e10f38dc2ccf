"""A proof and a status as text: plain where it is piped, nothing from outside read as markup."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from pdctl.verify.proof import Exchange, Proof, Transfer
from pdctl.views.proof import show_proof
from pdctl.views.status import show_status

COUNTER = "vllm:external_prefix_cache_hits_total"
JOURNAL = "journal: `Retrieved N out of M required tokens`"
GOOD = Proof(
    mode="disaggregated",
    exchanges=(Exchange(40, "ab[/red]\x1b[31m", "ab[/red]\x1b[31m", "prefiller-0", "decoder-0"),),
    transfer=Transfer(39, 39, COUNTER),
    reference="decoder-0 without a transfer",
    versions={"decoder-0": "0.32.0", "prefiller-0": "0.32.0 [bold]"},
    simulated=False,
)
ROW = {
    "instance": "decoder-0",
    "role": "decoder",
    "host": "h2",
    "url": "http://[fd00::2]:7200",
    "gpus": [6, 7],
    "unit": "active",
    "healthy": True,
    "reason": "healthy",
    "version": "0.32.0",
    "simulated": False,
}
STATUS: dict[str, Any] = {"instances": [ROW], "unreachable": {}, "drift": [], "changes": 0}


def shown(show: Callable[[Console], None], *, terminal: bool = False) -> str:
    file = io.StringIO()
    show(Console(file=file, force_terminal=terminal, highlight=False, soft_wrap=True, width=1000))
    return file.getvalue()


def proof_text(proof: Proof, **more: bool) -> str:
    return shown(lambda console: show_proof(proof, console, **more))


def test_a_proof_says_what_was_asked_what_moved_by_which_signal_and_what_was_equal() -> None:
    lines = proof_text(GOOD).splitlines()
    assert lines == [
        r"     40 tokens  prefiller-0 -> decoder-0  equal  'ab[/red]\x1b[31m'",
        "✓ Served: 1 requests through the proxy (decoder-0 0.32.0, prefiller-0 0.32.0 [bold])",
        f"✓ KV moved: 39 prompt tokens, at least 39 expected  [{COUNTER}]",
        "✓ Text equal to decoder-0 without a transfer: 1 of 1",
    ]
    assert proof_text(GOOD, brief=True).splitlines() == lines[1:]


@pytest.mark.parametrize(
    ("transfer", "line", "problem"),
    [
        (
            Transfer(39, 0, JOURNAL),
            f"✗ KV moved: 0 prompt tokens, at least 39 expected  [{JOURNAL}]",
            "took 0 of",
        ),
        (
            Transfer(2, 1, "j", "transfers"),
            "✗ KV moved: 1 transfers, at least 2 expected  [j]",
            "1 of at least 2",
        ),
        (
            Transfer(39, None, JOURNAL),
            f"✗ KV moved: not known  [{JOURNAL}]",
            "nothing says whether the KV moved",
        ),
    ],
)
def test_what_was_not_proven_is_crossed_out_and_named(transfer: Transfer, line: str, problem: str) -> None:
    lines = proof_text(replace(GOOD, transfer=transfer)).splitlines()
    assert line in lines
    assert lines[-1].startswith("problem: ") and problem in lines[-1]


def test_a_different_text_and_a_simulator_cannot_be_overlooked() -> None:
    wrong = replace(GOOD.exchanges[0], text="x")
    lines = proof_text(replace(GOOD, exchanges=(wrong,), simulated=True)).splitlines()
    assert lines[0].startswith("SIMULATED engine")
    assert "DIFFERENT" in lines[1]
    assert "✗ Text equal to decoder-0 without a transfer: 0 of 1" in lines


def test_an_aggregated_cluster_has_no_line_on_kv_and_none_on_a_reference_it_lacks() -> None:
    alone = replace(GOOD.exchanges[0], prefiller="", reference=None)
    text = proof_text(replace(GOOD, mode="aggregated", transfer=None, exchanges=(alone,)))
    assert "KV" not in text and "equal" not in text.lower()
    assert "40 tokens  decoder-0 " in text


def test_only_a_terminal_gets_colours() -> None:
    assert "\x1b" not in proof_text(GOOD)
    assert "\x1b[32m✓" in shown(lambda console: show_proof(GOOD, console), terminal=True)


def test_a_status_has_a_row_for_each_instance() -> None:
    header, row, *rest = shown(lambda console: show_status(STATUS, console)).splitlines()
    assert header.split() == ["instance", "host", "unit", "health", "version", "url"]
    assert row.split() == ["decoder-0", "h2", "gpus", "6,7", "active", "healthy", "0.32.0", ROW["url"]]
    assert rest == ["As the spec says, nothing drifted"]


def test_a_status_takes_no_markup_from_hosts_and_sums_up_what_is_wrong() -> None:
    sick = {**ROW, "healthy": False, "reason": "GET /health failed: [/red][bold]", "simulated": True}
    drift = [{"host": "h2", "id": "file:/x", "what": ["changed"]}]
    status = {"instances": [sick], "unreachable": {"h3": "no [b]route[/b]"}, "drift": drift, "changes": 2}
    text = shown(lambda console: show_status(status, console))
    assert "GET /health failed: [/red][bold]" in text and "0.32.0 SIMULATED" in text
    *_, away, last = text.splitlines()
    assert away == "! h3: no [b]route[/b]" and last.startswith("1 drifted, 2 to change on the hosts that")
    assert "\x1b" not in text


def test_hosts_that_were_not_seen_are_never_said_to_be_as_the_spec_says() -> None:
    away = {"h1": "timed out"}
    text = shown(lambda console: show_status(dict(STATUS, drift=[], changes=0, unreachable=away), console))
    last = text.splitlines()[-1]
    assert last == (
        "As the spec says on the hosts that answered, nothing drifted there; how it is on h1 is not known"
    )
    text = shown(lambda console: show_status(dict(STATUS, drift=[], changes=2, unreachable=away), console))
    assert text.splitlines()[-1] == (
        "0 drifted, 2 to change on the hosts that answered: see `pdctl diff`; how it is on h1 is not known"
    )
