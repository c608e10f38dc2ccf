"""The arrow Wanted -> ClusterLock: uv resolves each environment for the hosts' Python and platform."""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdctl.bundle.download import Progress, canonical
from pdctl.bundle.manifest import write_whole
from pdctl.bundle.uv import Settings, UvError, index_settings, uv, uv_program
from pdctl.desired.locking import Wanted
from pdctl.errors import BundleError
from pdctl.knowledge.locks import TORCH_CPU_INDEX
from pdctl.parts.cluster_lock import ClusterLock, lock_text
from pdctl.parts.lock import Entry, Lock, lock_of
from pdctl.parts.recipes import Recipe

# The oldest glibc among the hosts' systems is that of Ubuntu 22.04, as in bundle.download.
PLATFORM = "x86_64-manylinux_2_35"
# What uv says when an index does not answer.
_OFFLINE = ("dns error", "error sending request", "timed out", "connection", "connectivity is disabled")


def resolve_lock(cluster: str, wants: Wanted, before: ClusterLock | None, progress: Progress) -> ClusterLock:
    """Exact versions of everything; those of `before` stay where they still may.

    Raises BundleError that says what cannot be had, or what excludes what.
    """
    program, settings = uv_program(progress), index_settings()
    found: dict[tuple[str, str], Lock] = {}
    for (name, python), recipe in wants.recipes.items():
        progress(f"resolving {name} for Python {python}")
        old = before.environments.get((name, python)) if before else None
        with tempfile.TemporaryDirectory(prefix="pdctl-lock-") as folder:
            run = _Run(program, settings, python, Path(folder))
            try:
                found[name, python] = lock_of(sorted(_nearest(run, recipe, old)))
            except UvError as error:
                raise _refusal(name, python, str(error)) from None
    return ClusterLock(cluster, wants.source, wants.packages, found, {})


def write_lock(lock: ClusterLock, path: Path) -> None:
    """The file is the old lock or the new one."""
    try:
        write_whole(path, lock_text(lock).encode())
    except OSError as error:
        raise BundleError(f"cannot be written: {error.strerror}", where=str(path)) from None


@dataclass(frozen=True)
class _Run:
    program: Path
    settings: Sequence[Settings]  # to be tried in this order
    python: str
    folder: Path

    def compile(self, lines: Sequence[str], out: str, *options: str) -> str:
        """The file that uv makes of these requirements."""
        (self.folder / "in.txt").write_text("".join(f"{line}\n" for line in lines))
        words = ["pip", "compile", "--quiet", "--python-version", self.python, "--python-platform", PLATFORM]
        words += ["--python", sys.executable]  # only spares a search: nothing is built
        words += ["--only-binary", ":all:", "--no-header", "--no-annotate", "--no-emit-index-url"]
        words += ["--output-file", out, *options, "in.txt"]
        tries = [(words, settings) for settings in self.settings]
        if any(line.endswith("+cpu") for line in lines):
            tries.append(([*words, "--index", TORCH_CPU_INDEX], self.settings[0]))
        said: list[UvError] = []
        for call, settings in tries:
            try:
                uv(self.program, call, self.folder, settings)
                return (self.folder / out).read_text()
            except UvError as error:
                said.append(error)
        raise said[0]


def _nearest(run: _Run, recipe: Recipe, old: Lock | None) -> list[Entry]:
    """Near the old lock; where uv finds no way from there, anew. With several indexes it looks for a version
    that it is to prefer only in the first one that has it, with whatever builds (uv 0.13.9)."""
    try:
        return list(_resolve(run, recipe, old))
    except UvError:
        if old is None:
            raise
        return list(_resolve(run, recipe, None))


def _resolve(run: _Run, recipe: Recipe, old: Lock | None) -> Iterator[Entry]:
    """First the versions, preferring the old ones, then the files of exactly these versions."""
    held = "".join(f"{entry.name}=={entry.version}\n" for entry in (old.entries if old else ()))
    for name in ("versions.txt", "alone.txt"):
        (run.folder / name).write_text(held)
    (run.folder / "without.txt").write_text("".join(f"{name}\n" for name in recipe.without))
    liked = [line for line in recipe.unresolved if recipe.like and line.startswith(f"{recipe.like}==")]
    lines = _pins(run.compile([*recipe.requires, *liked], "versions.txt", "--excludes", "without.txt"))
    if alone := [line for line in recipe.unresolved if line not in liked]:
        # Taken whatever the others ask for, so that they win where both name a version.
        lines |= _pins(run.compile(alone, "alone.txt", "--no-deps"))
    exact = [f"{name}==={version}" for name, version in sorted(lines.items())]
    text = run.compile(exact, "pylock.toml", "--no-deps", "--format", "pylock.toml")
    for package in tomllib.loads(text)["packages"]:
        yield Entry(canonical(package["name"]), package["version"], _hashes(package))


def _pins(text: str) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", text, re.MULTILINE)
    return {canonical(name): version for name, version in found}


def _hashes(package: Mapping[str, Any]) -> tuple[str, ...]:
    """Of every wheel that fits the hosts; uv leaves the others out."""
    wheels = package.get("wheels", ())
    found = {f"sha256:{wheel['hashes']['sha256']}" for wheel in wheels if "sha256" in wheel.get("hashes", {})}
    if not found:
        raise BundleError(
            f"the index tells no sha256 of {package['name']} {package['version']}",
            hint="use an index that does: a lock without hashes would lock nothing",
        )
    return tuple(sorted(found))


def _refusal(name: str, python: str, said: str) -> BundleError:
    what = f"{name} for Python {python} cannot be resolved"
    if any(sign.lower() in said.lower() for sign in _OFFLINE):
        reason = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), said)
        reason = reason.removeprefix("cause: ").removeprefix("Caused by: ")
        hint = "check pip's index and the network, then run this again; the lock is as it was"
        return BundleError(f"{what}: the index cannot be reached ({reason})", hint=hint)
    return BundleError(
        f"{what}: {_because(said)}", hint="change a pin; `pdctl explain stack` lists whole sets"
    )


def _because(said: str) -> str:
    """uv's sentence that names what excludes what, on one line."""
    text = " ".join(line.strip() for line in said.splitlines())
    found = re.search(r"(Because .*?)(?: hint: .*)?$", text)
    return found[1] if found else text
