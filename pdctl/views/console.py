"""The two consoles: results on stdout, progress and errors on stderr; plain when not a terminal."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from pdctl.errors import ErrorGroup, PdctlError, SpecError

_documents: list[Any] = []  # what went to stdout as JSON: one document at most
# A pipe has no edge: nothing is cut or wrapped there.
PIPE_WIDTH = 1000


def out() -> Console:
    return _console(sys.stdout)


def err() -> Console:
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    width = None if file.isatty() else PIPE_WIDTH
    return Console(file=file, highlight=False, soft_wrap=True, width=width)


def print_json(document: Any) -> None:
    """The one JSON document of this program on stdout; keys keep their order."""
    _documents.append(document)
    # Piece by piece: the text of a plan for 1,000 hosts would take more memory than the plan itself.
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def printed_json() -> bool:
    """Whether the document is out: what goes wrong after it stands in it, and on stderr."""
    return bool(_documents)


def show_error(error: PdctlError, console: Console) -> None:
    """`error:` line, members of a group, then hints; nothing from outside is read as markup."""
    if isinstance(error, ErrorGroup):
        console.print(Text.assemble(("error: ", "bold red"), error.message))
        for member in error.errors:
            _member(member, console)
    else:
        console.print(Text.assemble(("error: ", "bold red"), str(error)))
    if error.hint:
        console.print(Text.assemble(("hint: ", "bold cyan"), error.hint))


def _member(error: PdctlError, console: Console) -> None:
    if isinstance(error, ErrorGroup):
        for member in error.errors:
            _member(member, console)
        return
    console.print(Text(f"  {error}"))
    if error.hint:
        console.print(Text(f"      hint: {error.hint}", style="cyan"))


def error_document(error: PdctlError) -> dict[str, Any]:
    """The error as JSON, for `--json`."""
    found: dict[str, Any] = {"error": error.message, "where": error.where, "hint": error.hint}
    if isinstance(error, SpecError) and error.rule:
        found |= {"rule": error.rule, "severity": error.severity}
    if isinstance(error, ErrorGroup):
        found["errors"] = [error_document(member) for member in error.errors]
    return found
