"""How a command ends: with another exit code than 0 or 1, and saying where its time went."""

from __future__ import annotations

from typing import Any

from pdctl.hosts.timing import laps, timing_document


class Finish(Exception):  # noqa: N818
    """Ends the program: 2 a difference was found, 3 the SLO was missed."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def timed(document: dict[str, Any], wanted: bool) -> dict[str, Any]:
    """The document with the field `timing`, where `--timing` asks for it."""
    return document | {"timing": timing_document(laps)} if wanted else document
