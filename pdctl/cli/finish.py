"""How a command ends with another exit code than 0 or 1."""

from __future__ import annotations


class Finish(Exception):  # noqa: N818
    """Ends the program: 2 a difference was found, 3 the SLO was missed."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
