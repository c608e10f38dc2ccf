"""Pairs of versions: what the tables say, in either order, and nothing of what they do not hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.knowledge.compatibility import LMCACHE, NIXL, PAIRS, VLLM, Status
from pdctl.knowledge.pairs import judged_pairs, known_pairs, pair_status, release_status
from pdctl.knowledge.releases import numbers
from pdctl.knowledge.stacks import STACKS, STACKS_ABOUT
from pdctl.knowledge.versions import DEFAULT_PINS

TEXTS = st.text(max_size=12) | st.from_regex(
    r"\d{1,3}(\.\d{1,3}){0,3}(\.post\d|rc\d)?(\+cu\d{3})?", fullmatch=True
)


@given(st.sampled_from(sorted(judged_pairs())), TEXTS, TEXTS)
def test_any_text_has_a_verdict_and_the_order_says_nothing(pair: tuple[str, str], one: str, two: str) -> None:
    verdict = pair_status(pair[0], one, pair[1], two)
    assert verdict == pair_status(pair[1], two, pair[0], one)
    assert verdict.reason or verdict.status in (Status.RESOLVES, Status.PROVEN)


@pytest.mark.parametrize("name", STACKS)
def test_a_shipped_stack_holds_no_pair_that_is_known_bad(name: str) -> None:
    assert name in STACKS_ABOUT
    rows = list(known_pairs(STACKS[name]))
    assert len(rows) > 8
    assert [row for row in rows if row[2].status is Status.KNOWN_BAD] == []


def test_pdctls_defaults_hold_only_pairs_that_are_known() -> None:
    rows = list(known_pairs(DEFAULT_PINS["vllm", "cuda"]))
    assert {verdict.status for *_, verdict in rows} <= {Status.PROVEN, Status.RESOLVES}


@pytest.mark.parametrize("rows", [VLLM, LMCACHE, NIXL], ids=["vllm", "lmcache", "nixl"])
def test_rows_follow_each_other_without_overlap_and_name_their_source(rows: tuple) -> None:  # type: ignore[type-arg]
    bounds = [numbers(bound) for row in rows for bound in row.span]
    assert bounds == sorted(bounds)
    assert all(row.source for row in rows) and all(row.source and row.reason for row in PAIRS)


@pytest.mark.parametrize("row", VLLM, ids=lambda row: row.span.first)
def test_what_is_suggested_fits(row) -> None:  # type: ignore[no-untyped-def]
    vllm = row.span.last
    for name, version in (("torch", row.torch), ("lmcache", row.lmcache), ("nixl", row.nixl)):
        if version:
            assert pair_status("vllm", vllm, name, version).status in (Status.RESOLVES, Status.PROVEN)


@pytest.mark.parametrize(
    ("name", "version", "status"),
    [
        ("vllm", "0.32.0", Status.RESOLVES),
        ("vllm", "0.32.0rc1", Status.UNKNOWN),
        ("vllm", "0.33.1", Status.UNKNOWN),
        ("lmcache", "0.3.10.post1", Status.RESOLVES),
        ("lmcache", "0.3.12", Status.UNKNOWN),
        ("nixl", "1.5.2", Status.KNOWN_BAD),
        ("driver", "999", Status.RESOLVES),
    ],
)
def test_a_release_by_itself(name: str, version: str, status: Status) -> None:
    assert release_status(name, version).status is status


def test_a_suggestion_for_lmcache_leads_out() -> None:
    bad = pair_status("vllm", "0.27.1", "lmcache", "0.5.3")
    assert bad.nearest == ("lmcache", "0.5.6")
    assert pair_status("vllm", "0.27.1", *bad.nearest).status is Status.RESOLVES
    newest = pair_status("vllm", "0.33.0", "lmcache", "0.5.6")
    assert newest.nearest == ("vllm", "0.32.0")


def test_glibc_of_a_wheel_counts() -> None:
    assert pair_status("vllm", "0.20.2", "glibc", "2.31").status is Status.KNOWN_BAD
    assert pair_status("vllm", "0.20.2", "glibc", "2.35").status is Status.RESOLVES
