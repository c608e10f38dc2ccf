"""Lists of CPUs, as Linux writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.knowledge.cpus import cpu_set, cpu_text


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0", {0}), ("0-2", {0, 1, 2}), ("0-1,4", {0, 1, 4}), ("3,1", {1, 3}), ("1,1-2", {1, 2})],
)
def test_a_list_is_its_numbers(text: str, cpus: set[int]) -> None:
    assert cpu_set(text) == cpus


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1,,2", "1 2", "0-99999", "numa", "0\n", "٣"])
def test_what_is_no_list_has_none(text: str) -> None:
    assert cpu_set(text) == frozenset()


@given(st.sets(st.integers(0, 9999), min_size=1))
def test_a_list_is_read_as_it_was_written(cpus: set[int]) -> None:
    assert cpu_set(cpu_text(cpus)) == cpus
