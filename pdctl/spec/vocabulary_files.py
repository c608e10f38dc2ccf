"""`model.vocabulary` of the spec -> which of the files that engines would download are in that folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pdctl.knowledge.vocabularies import VOCABULARIES, Vocabulary


@dataclass(frozen=True)
class VocabularyFiles:
    """`sound` are those that are as published; `damaged` says of the others that are there what is wrong."""

    folder: str
    sound: tuple[str, ...]
    damaged: Mapping[str, str]
    exists: bool = True


def vocabulary_files(folder: Path) -> VocabularyFiles:
    folder = folder.absolute()
    wrong = {name: _wrong(folder / name, published) for name, published in VOCABULARIES.items()}
    return VocabularyFiles(
        folder=str(folder),
        sound=tuple(name for name, what in wrong.items() if what == ""),
        damaged={name: what for name, what in wrong.items() if what},
        exists=_is_folder(folder),
    )


def _wrong(path: Path, published: Vocabulary) -> str | None:
    """Empty for a sound file, None for one that is not there."""
    try:
        if not path.exists():
            return None
        if not path.is_file():
            return "is no regular file"
        if (size := path.stat().st_size) != published.size:
            return f"has {size} bytes, the published file {published.size}"
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except ValueError:  # a NUL in the name
        return None
    return "" if digest == published.sha256 else f"has the sha256 {digest}, not that of the published file"


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
