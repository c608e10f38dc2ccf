"""Environments -> a bundle: a folder with every wheel, package and model file that hosts install."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pdctl.bundle.debs import download_deb, release_note
from pdctl.bundle.download import Progress, Wheel, download, remove_partial
from pdctl.bundle.manifest import (
    DEBS,
    MODELS,
    PARTIAL,
    WHEELS,
    Bundle,
    Item,
    has_manifest,
    is_intact,
    item_of,
    load_bundle,
    save,
    verify,
    write_whole,
)
from pdctl.desired.packages import CPU_ENGINE_PACKAGES
from pdctl.desired.runtime import OWN_PARTS
from pdctl.errors import BundleError
from pdctl.knowledge.locks import INSTALLER
from pdctl.knowledge.systems import SYSTEM_PYTHON
from pdctl.parts.lock import Entry, Runtime, load_lock
from pdctl.parts.own import own_wheel
from pdctl.parts.tiny_model import TINY_MODEL, tiny_model_files

__all__ = ["Bundle", "Given", "Item", "Runtime", "collect", "default_folder", "load_bundle", "verify"]

_PACKAGES: Mapping[str, tuple[str, ...]] = {"engine-cpu": CPU_ENGINE_PACKAGES}


class Given(NamedTuple):
    """A file of the user's own: `file` in the bundle, where it is on this machine, and what it must be."""

    file: str
    path: Path
    sha256: str


def default_folder() -> Path:
    """Where wheels are kept between clusters: `$XDG_CACHE_HOME/pdctl/bundle`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "pdctl", "bundle")


def collect(
    runtimes: Iterable[Runtime],
    out: Path,
    *,
    progress: Progress = lambda text: None,
    cache: Path | None = None,
    given: Iterable[Given] = (),
) -> Bundle:
    """Make `out` hold all that these environments need and what is `given`, fetching only what is missing.

    Wheels are fetched into `cache` (by default `default_folder()`) and linked from there. Raises a
    BundleError that names the wheel or package that cannot be had. Nothing is ever half-written, and the
    next call goes on where this one stopped.
    """
    need = _need(runtimes)
    out, cache = out.absolute(), (cache or default_folder()).absolute()
    try:
        with contextlib.ExitStack() as held:
            for folder in sorted({out, cache}):
                held.enter_context(_alone(folder, progress))
            return _collect(need, out, cache, progress, given)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BundleError(f"cannot make the bundle: {reason}", where=error.filename or str(out)) from error


@dataclass(frozen=True)
class _Need:
    entries: Mapping[str, tuple[Entry, ...]]  # by Python
    parts: tuple[str, ...]
    packages: tuple[str, ...]


def _need(runtimes: Iterable[Runtime]) -> _Need:
    wanted = sorted(set(runtimes))
    # The installer's one wheel fits every Python, and hosts need it even if nothing else is collected.
    first = min((each.python for each in wanted), default=min(SYSTEM_PYTHON.values()))
    entries = {first: [*load_lock(INSTALLER, first).entries]}
    for name, python, own in wanted:
        entries.setdefault(python, []).extend(own or load_lock(name, python).entries)
    return _Need(
        {python: tuple(dict.fromkeys(some)) for python, some in entries.items()},
        tuple(sorted({part for name, *_ in wanted for part in OWN_PARTS.get(name, ())})),
        tuple(sorted({package for name, *_ in wanted for package in _PACKAGES.get(name, ())})),
    )


def _collect(need: _Need, out: Path, cache: Path, progress: Progress, given: Iterable[Given]) -> Bundle:
    wheels: dict[Entry, Wheel] = {}
    for python, entries in need.entries.items():
        wheels |= download(entries, python, cache / WHEELS, progress)
    items = [_linked(entry, wheel, out) for entry, wheel in wheels.items()]
    items += [_own(part, out) for part in need.parts]
    items += [_copied(each, out) for each in given]
    if need.packages:
        progress(f"packages: {', '.join(need.packages)}")
    before = _listed(out)
    items += [_deb(package, out, before) for package in need.packages]
    items += _model(out)
    note = release_note(need.packages) if need.packages else ""
    bundle = Bundle(out, tuple(sorted(items, key=lambda item: item.file)), (note,) if note else ())
    save(bundle)
    return bundle


@contextlib.contextmanager
def _alone(folder: Path, progress: Progress) -> Iterator[None]:
    """Two collections into one folder take turns; what a killed one left half-done is removed first."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another pdctl that fills {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for part in (WHEELS, DEBS):
            remove_partial(folder / part)
        yield


def _listed(out: Path) -> Mapping[str, Item]:
    """What an earlier collection left here, by file."""
    return {item.file: item for item in load_bundle(out).items} if has_manifest(out) else {}


def _linked(entry: Entry, wheel: Wheel, out: Path) -> Item:
    file = f"{WHEELS}/{wheel.path.name}"
    item = Item(entry.name, entry.version, file, wheel.sha256, wheel.path.stat().st_size)
    target = out / file
    if target.exists() and (target.samefile(wheel.path) or is_intact(out, item)):
        return item
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{PARTIAL}{target.name}")
    partial.unlink(missing_ok=True)
    try:
        partial.hardlink_to(wheel.path)
    except OSError:  # another file system, or one without links
        shutil.copyfile(wheel.path, partial)
    partial.replace(target)
    return item


def _own(part: str, out: Path) -> Item:
    """Always built anew: the same source gives the same bytes."""
    wheel = own_wheel(part)
    path = out / WHEELS / wheel.file
    write_whole(path, wheel.data)
    return item_of(out, path, wheel.name, wheel.version)


def _copied(given: Given, out: Path) -> Item:
    data = given.path.read_bytes()
    if hashlib.sha256(data).hexdigest() != given.sha256:
        raise BundleError(
            "is not the file that the spec was checked with any more",
            where=str(given.path),
            hint="pdctl validate says what is wrong with it",
        )
    write_whole(out / given.file, data)
    return item_of(out, out / given.file, given.path.name, "")


def _deb(package: str, out: Path, before: Mapping[str, Item]) -> Item:
    for item in before.values():
        if item.file.startswith(f"{DEBS}/") and item.name == package and is_intact(out, item):
            return item
    path = download_deb(package, out / DEBS)
    return item_of(out, path, package, path.name.split("_")[1].replace("%3a", ":"))


def _model(out: Path) -> list[Item]:
    folder = f"{MODELS}/tiny"
    items = [Item(name, "", f"{folder}/{name}", digest, size) for name, (digest, size) in TINY_MODEL.items()]
    if not all(is_intact(out, item) for item in items):
        for name, data in tiny_model_files().items():
            write_whole(out / folder / name, data)
    return items
