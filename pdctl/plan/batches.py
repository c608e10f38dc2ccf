"""Instances of one role -> batches that restart one after the other: canaries first, one always left."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.spec.serving import Rollout

Batch = tuple[str, ...]


def batches(names: Sequence[str], rollout: Rollout, others: int) -> list[Batch]:
    """`names` restart; `others` of their role serve all the while."""
    total = len(names) + others
    most = max(1, min(at_once(rollout, total), total - 1))
    first, rest = names[: rollout.canary], names[rollout.canary :]
    return [*_chunks(first, most), *_chunks(rest, most)]


def at_once(rollout: Rollout, total: int) -> int:
    """How many of `total` may be away: a share is rounded down, but one at least."""
    limit = rollout.max_unavailable
    return limit if isinstance(limit, int) else max(1, total * int(limit.removesuffix("%")) // 100)


def spread(parts: Sequence[Batch], waves: int, *, last: bool) -> list[Batch]:
    """`parts` over `waves`, the first part in the first one and the last in the last; `last`: where a single
    part goes."""
    found: list[Batch] = [()] * waves
    for number, part in enumerate(parts):
        single = waves - 1 if last else 0
        found[number * (waves - 1) // (len(parts) - 1) if len(parts) > 1 else single] = part
    return found


def _chunks(names: Sequence[str], size: int) -> list[Batch]:
    return [tuple(names[start : start + size]) for start in range(0, len(names), size)]
