"""A bundle's folder <-> what it holds: every file with its version, sha256 and size."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from pdctl.errors import BundleError

WHEELS, DEBS, MODELS = "wheels", "debs", "models"
PARTIAL = ".partial-"
"""How the names of files and folders begin that a collection has not finished with."""

_FILE = "manifest.json"


@dataclass(frozen=True)
class Item:
    """One file; `file` is relative to the bundle, `name` that of the wheel, package or model file."""

    name: str
    version: str
    file: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Bundle:
    """A folder with all that hosts install; `notes` say what is not quite as it should be."""

    root: Path
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()

    @property
    def wheels(self) -> tuple[Item, ...]:
        return self._in(WHEELS)

    @property
    def debs(self) -> tuple[Item, ...]:
        return self._in(DEBS)

    @property
    def models(self) -> tuple[Item, ...]:
        return self._in(MODELS)

    def _in(self, folder: str) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.file.startswith(f"{folder}/"))


def load_bundle(root: Path) -> Bundle:
    """The bundle as its manifest says; `verify` tells whether that is true."""
    path = root / _FILE
    try:
        data = json.loads(path.read_text("utf-8"))
        return Bundle(root, tuple(Item(**row) for row in data["items"]), tuple(data["notes"]))
    except FileNotFoundError:
        raise BundleError(f"{root} is not a bundle: no {_FILE}", hint="make one: pdctl bundle") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"unreadable: {error}", where=str(path), hint="remove the file") from error


def verify(bundle: Bundle) -> None:
    """Read every file again; raise a BundleError that names those that are missing or not what they were."""
    wrong = [item.file for item in bundle.items if not is_intact(bundle.root, item)]
    if wrong:
        raise BundleError(
            f"missing or changed: {', '.join(wrong)}",
            where=str(bundle.root),
            hint="collect it again: only these files are fetched",
        )


def is_intact(root: Path, item: Item) -> bool:
    path = root / item.file
    return path.is_file() and path.stat().st_size == item.size and sha256_of(path) == item.sha256


def save(bundle: Bundle) -> None:
    """Write the manifest; what an earlier collection for another environment left here stays listed."""
    items = {item.file: item for item in [*_kept(bundle.root), *bundle.items]}
    rows = [asdict(items[file]) for file in sorted(items)]
    text = json.dumps({"notes": list(bundle.notes), "items": rows}, indent=1) + "\n"
    write_whole(bundle.root / _FILE, text.encode())


def has_manifest(root: Path) -> bool:
    return (root / _FILE).is_file()


def _kept(root: Path) -> Iterable[Item]:
    if not has_manifest(root):
        return ()
    return (item for item in load_bundle(root).items if (root / item.file).is_file())


def item_of(root: Path, path: Path, name: str, version: str) -> Item:
    file = path.relative_to(root).as_posix()
    return Item(name, version, file, sha256_of(path), path.stat().st_size)


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_whole(path: Path, data: bytes) -> None:
    """The file is the old one or the new one, never a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{PARTIAL}{path.name}")
    with partial.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)
