"""The journal of one unit, from a place in it on -> text -> what it says was taken in."""

from __future__ import annotations

import re

from pdctl.errors import HostError
from pdctl.hosts.session import Session
from pdctl.knowledge.signals import Lines

_CURSOR = re.compile(r"^-- cursor: (\S+)$", re.MULTILINE)


def counted(text: str, lines: Lines) -> int | None:
    """The sum of what `lines` count in `text`; None when nothing shows that the engine would have said it."""
    numbers = [int(found) for found in re.findall(lines.counts, text)]
    return sum(numbers) if numbers or re.search(lines.speaks, text) else None


def place(session: Session, unit: str) -> str:
    """Where the unit's journal ends now, as a cursor, since clocks differ; empty when it has no entry."""
    found = _CURSOR.findall(_journal(session, unit, "--lines=1", "--show-cursor"))
    return found[-1] if found else ""


def since(session: Session, unit: str, cursor: str) -> str:
    """What the unit has printed after `cursor`, messages only."""
    return _journal(session, unit, *([f"--after-cursor={cursor}"] if cursor else []))


def _journal(session: Session, unit: str, *words: str) -> str:
    # --all: engines colour their lines, which the journal would show as blobs
    argv = ["journalctl", f"--unit={unit}", "--output=cat", "--all", "--no-pager", "--quiet", *words]
    result = session.run(b"", argv)
    if result.rc:
        raise HostError(
            f"the journal of {unit} cannot be read: {result.last_words}", where=session.reach.name
        )
    return result.out.decode(errors="replace")
