"""Seconds -> how long ago that was, in words."""

from __future__ import annotations

STEPS = ((60, "s"), (60, "min"), (24, "h"), (0, "days"))


def age(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`, `5 days`: one number, rounded down."""
    left = int(seconds)
    for size, unit in STEPS:
        if not size or left < size:
            return f"{left} {unit}" if (left, unit) != (1, "days") else "1 day"
        left //= size
    raise AssertionError("the last step has no size")
