"""Plain scalars mean what YAML 1.2 says; ruamel.yaml's own resolver is the second opinion."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pdctl.spec.scalar import LEADING_ZERO, resolve

WRITTEN = [
    "null", "Null", "~", "true", "False", "TRUE", "yes", "on", "n", "0", "12", "-3", "+4", "0x1F", "0o17",
    "1.5", ".5", "1.", "1e3", "1.0e+9", "-.inf", ".NaN", "22:22", "5:30", "2024-01-01", "580.95.05", "a",
    "-a", ".", "1e",
    "e1", "+", "0b11", "=", "<<", "true ",
]  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN)
def test_as_the_other_reader(text: str) -> None:
    if text in ("2024-01-01", "0b11", "=", "<<"):  # not in the core schema, which has no dates
        assert resolve(text) == text
        return
    other = YAML(typ="safe", pure=True).load(f"- {text}\n")[0]
    mine = resolve(text.strip())
    assert type(mine) is type(other)
    assert mine == other or (isinstance(mine, float) and math.isnan(mine))


@given(st.integers(-(10**17), 10**17))
def test_whole_numbers_survive(number: int) -> None:
    assert resolve(str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_survive(number: float) -> None:
    assert resolve(repr(number)) == number


def test_what_python_or_yaml_1_1_would_take_for_a_number_stays_text() -> None:
    for text in ("1_000", "190:20:30", "0b1", "9" * 5000, "1" * 21, "١٢", "²"):
        assert resolve(text) == text
    assert (
        LEADING_ZERO.fullmatch("007")
        and not LEADING_ZERO.fullmatch("0")
        and not LEADING_ZERO.fullmatch("0.5")
    )
