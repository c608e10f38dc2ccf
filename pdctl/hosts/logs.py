"""Session x unit -> the unit's journal, as it comes."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.hosts.session import Session


def tail(session: Session, unit: str, lines: int = 100, *, follow: bool = False) -> Iterator[str]:
    """Pieces of text, not lines; with `follow` without end until the iterator is closed."""
    words = ["journalctl", f"--unit={unit}", f"--lines={lines}", "--no-pager", "--output=short-iso"]
    return session.stream([*words, *(["--follow"] if follow else [])])
