"""Text -> a file that is whole or not there, and never one that was there before."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from pdctl.errors import SpecError

HINT = "name another file with --out, or write over it with --force"


def refuse_existing(path: Path, force: bool) -> None:
    """Before any host is looked at."""
    if path.is_dir():
        raise SpecError("is a directory, not a file", where=str(path), hint="name a file with --out")
    if not force and (path.exists() or path.is_symlink()):
        raise SpecError("the file is there already", where=str(path), hint=HINT)


def save(text: str, path: Path, force: bool) -> None:
    """Write beside it, then give it its name in one step. Raises SpecError."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            if force:
                beside.replace(path)
            else:
                path.hardlink_to(beside)  # fails where a name is taken, unlike a rename
        finally:
            beside.unlink(missing_ok=True)
    except FileExistsError:
        raise SpecError("the file is there already", where=str(path), hint=HINT) from None
    except OSError as error:
        raise SpecError(f"cannot be written: {error.strerror}", where=str(path)) from None
