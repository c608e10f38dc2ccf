"""The program -> docs/reference.md: every command with its own help text. `make golden` runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from pdctl.cli.main import app

PAGE = Path(__file__).parent / "reference.md"
WIDTH = 100
HEAD = """\
# Commands

Written by `make golden` from the program's own help; do not edit.

Results go to stdout, progress and errors to stderr. `--json` prints the same result as JSON.

| exit code | meaning |
| --- | --- |
| 0 | fine |
| 1 | an error, a wrong option included |
| 2 | a difference or a warning was found by a command that was asked for it (`--exit-code`, `--strict`) |
| 3 | the SLO was missed (`pdctl bench`) |
| 130 | interrupted; run the same command again to go on |
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD]
    for words, help_text in commands():
        depth = "#" * min(len(words) + 1, 4)
        parts.append(f"{depth} `{' '.join(words)}`\n\n```text\n{help_text}\n```\n")
    return "\n".join(parts)


def commands() -> Iterator[tuple[tuple[str, ...], str]]:
    """(words of the command, its help), the program itself first, in the order it lists them."""
    yield from _walk(typer.main.get_command(app), ("pdctl",), None)


def _walk(
    command: Any, words: tuple[str, ...], parent: typer.Context | None
) -> Iterator[tuple[tuple[str, ...], str]]:
    context = typer.Context(command, info_name=words[-1], parent=parent, terminal_width=WIDTH)
    yield words, context.get_help().strip()
    for name in getattr(command, "commands", {}):
        inner = command.get_command(context, name)
        if not inner.hidden:
            yield from _walk(inner, (*words, name), context)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
