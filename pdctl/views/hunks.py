"""Lines of a unified diff -> those worth reading: without revisions, long lines cut down to what differs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# The line by which a unit tells its process what it is started from: it follows from the other changes.
REVISION = re.compile(r"^.Environment=PDCTL_REVISION=[0-9a-f]{16}$")
BEFORE = 16  # characters kept before a difference: the option that a value belongs to
GAP = "…"
HEADS = 2  # lines with the names of the files
HEAD = "--- "  # the first of them


def hunks(diff: Sequence[str], width: int) -> list[str]:
    """What is shown of a diff on `width` columns; what is said in the place of a diff is shown as it is."""
    if not diff[:1] or not diff[0].startswith(HEAD):
        return list(diff)
    found: list[str] = []
    for hunk in _parts(diff[HEADS:]):
        lines = [line for line in hunk if not REVISION.match(line)]
        if any(line[:1] in "+-" for line in lines[1:]):
            found += [*lines[:1], *_cut(_beside(lines[1:]) if len(lines) < len(hunk) else lines[1:], width)]
    return found


def _parts(lines: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in lines:
        if line.startswith("@@") and part:
            yield part
            part = []
        part.append(line)
    if part:
        yield part


def _beside(lines: list[str]) -> list[str]:
    """Without the lines around what was left out: at most two on either side of a change."""
    changed = [i for i, line in enumerate(lines) if line[:1] in "+-"]
    return [line for i, line in enumerate(lines) if any(abs(i - j) <= 2 for j in changed)]


def _cut(lines: list[str], width: int) -> Iterator[str]:
    """Lines that replace one another are cut alike."""
    at = 0
    while at < len(lines):
        gone = _run(lines, at, "-")
        come = _run(lines, at + len(gone), "+")
        if gone and len(gone) == len(come):
            pairs = [_differing(one, two, width) for one, two in zip(gone, come, strict=True)]
            yield from [one for one, _ in pairs] + [two for _, two in pairs]
            at += 2 * len(gone)
        else:
            line = lines[at]
            yield line if len(line) <= width or line[:1] != " " else line[: width - 1] + GAP
            at += 1


def _run(lines: Sequence[str], start: int, sign: str) -> list[str]:
    end = start
    while end < len(lines) and lines[end][:1] == sign:
        end += 1
    return list(lines[start:end])


def _differing(gone: str, come: str, width: int) -> tuple[str, str]:
    """Both lines without what they have in common at their ends, if they are too long."""
    if max(len(gone), len(come)) <= width:
        return gone, come
    one, two = gone[1:], come[1:]
    before = _common(one, two)
    after = _common(one[before:][::-1], two[before:][::-1])
    return "-" + _around(one, before, after), "+" + _around(two, before, after)


def _common(one: str, two: str) -> int:
    """How long their common beginning is."""
    return next(
        (i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two))
    )


def _around(line: str, before: int, after: int) -> str:
    """Whole words around the middle that differs."""
    start = line.rfind(" ", 0, before - BEFORE) + 1 if before > BEFORE else 0
    end = line.find(" ", len(line) - after)
    head = f"{line.split('=')[0]}={GAP} " if start and "=" in line[:start] else f"{GAP} " if start else ""
    return head + (line[start:end] + f" {GAP}" if end != -1 else line[start:])
