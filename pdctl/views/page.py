"""Lines with indents -> a console: wrapped under their own beginning on a terminal, whole in a pipe."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

Part = str | tuple[str, str]  # text, or text with a style
NARROWEST = 40  # columns; below, lines are left to the terminal


class Page:
    """What a view writes to."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def heading(self, text: str) -> None:
        self._console.print(Text(text, style="bold"))

    def gap(self) -> None:
        self._console.print()

    def line(self, *parts: Part, indent: int = 0, hang: int = 4) -> None:
        """One line; what does not fit goes on `hang` columns further right."""
        text = Text.assemble(*parts)
        width = self._console.width - indent
        if not self._console.is_terminal or text.cell_len <= width or width - hang < NARROWEST:
            self._console.print(Text(" " * indent) + text)
            return
        first = text.wrap(self._console, width)[0]
        rest = text[len(first.plain) :]
        self._put(indent, first)
        for more in _left(rest).wrap(self._console, width - hang):
            self._put(indent + hang, more)

    def _put(self, indent: int, text: Text) -> None:
        text.rstrip()
        self._console.print(Text(" " * indent) + text)

    def room(self, indent: int) -> int:
        """Columns that a line has; as many as it wants where there is no edge."""
        return max(NARROWEST, self._console.width - indent) if self._console.is_terminal else sys.maxsize


def _left(text: Text) -> Text:
    return text[len(text.plain) - len(text.plain.lstrip()) :]
