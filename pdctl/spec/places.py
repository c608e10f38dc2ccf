"""Names of files in the spec -> where they are on this machine."""

from __future__ import annotations

from pathlib import Path


def beside(folder: Path, name: str) -> Path:
    """What a spec in `folder` means by `name`."""
    return folder / at_home(name)


def at_home(name: str) -> Path:
    """`~` is a home; that of a user who is not there stays as it is written, as in a shell."""
    try:
        return Path(name).expanduser()
    except RuntimeError:  # no such user, or no home
        return Path(name)
