"""Lock entries -> their wheels in a folder, through pip, which finds whatever the machine's indexes offer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pdctl.bundle.manifest import PARTIAL, sha256_of
from pdctl.errors import BundleError
from pdctl.knowledge.locks import TORCH_CPU_INDEX
from pdctl.parts.lock import Entry

Progress = Callable[[str], None]

_BATCH = 16
"""Wheels a pip call: pip keeps nothing of an interrupted call; one call a wheel costs half a second each."""

_OLDEST_GLIBC, _NEWEST_GLIBC = 5, 35
"""manylinux tags: from the first one to Ubuntu 22.04's glibc, the oldest of the supported hosts."""


class Wheel(NamedTuple):
    """A wheel in a folder, with the hash it was found to have."""

    path: Path
    sha256: str


def canonical(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def target_options(python: str) -> list[str]:
    """pip's options for wheels that run on the hosts, whatever runs pip."""
    glibc = [f"manylinux_2_{minor}_x86_64" for minor in range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1)]
    platforms = [*glibc, "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    options = ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    return [*options, *(word for platform in platforms for word in ("--platform", platform))]


def wheels_of(entries: Sequence[Entry], folder: Path) -> Mapping[Entry, Wheel]:
    """The entries whose wheel lies in `folder` with a hash of the lock."""
    found: dict[tuple[str, str], list[Path]] = {}
    for path in folder.glob("*.whl"):
        name, version, *_ = path.name.split("-")
        found.setdefault((canonical(name), version), []).append(path)
    right = {}
    for entry in entries:
        for path in found.get((entry.name, entry.version), ()):
            digest = sha256_of(path)
            if f"sha256:{digest}" in entry.hashes:
                right[entry] = Wheel(path, digest)
    return right


def download(
    entries: Sequence[Entry], python: str, folder: Path, progress: Progress
) -> Mapping[Entry, Wheel]:
    """Fetch what is missing; a wheel appears in `folder` whole and with a hash of the lock, or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    have = dict(wheels_of(entries, folder))
    missing = [entry for entry in entries if entry not in have]
    for batch in _batches(missing):
        names = ", ".join(entry.name for entry in batch[:3]) + (", ..." if len(batch) > 3 else "")
        progress(f"wheels: {len(have)} of {len(entries)}, fetching {names}")
        have |= _fetch_batch(batch, python, folder)
    progress(f"wheels: {len(have)} of {len(entries)}")
    return have


def remove_partial(folder: Path) -> None:
    """What an interrupted collection left; only while no other one runs in this folder."""
    for path in folder.glob(f"{PARTIAL}*"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _batches(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Builds that an own index may have to be asked for come alone."""
    special = [entry for entry in entries if _vendor_index(entry)]
    general = [entry for entry in entries if not _vendor_index(entry)]
    yield from ([entry] for entry in special)
    yield from (general[start : start + _BATCH] for start in range(0, len(general), _BATCH))


def _vendor_index(entry: Entry) -> str | None:
    return TORCH_CPU_INDEX if entry.version.endswith("+cpu") else None


def _fetch_batch(batch: Sequence[Entry], python: str, folder: Path) -> Mapping[Entry, Wheel]:
    with tempfile.TemporaryDirectory(dir=folder, prefix=PARTIAL) as staging:
        failed = _pip(batch, python, Path(staging), ())
        index = _vendor_index(batch[0])
        if failed and index:
            failed = _pip(batch, python, Path(staging), ("--index-url", index)) and failed
        got = {} if failed else wheels_of(batch, Path(staging))
        placed = {
            entry: Wheel(wheel.path.replace(folder / wheel.path.name), wheel.sha256)
            for entry, wheel in got.items()
        }
    if not failed and len(placed) == len(batch):
        return placed
    if len(batch) == 1:
        raise _refusal(batch[0], failed)
    for entry in batch:  # one by one, so that the error names the wheel
        if entry not in placed:
            placed |= _fetch_batch([entry], python, folder)
    return placed


def _pip(batch: Sequence[Entry], python: str, staging: Path, options: Sequence[str]) -> str:
    """What pip said when it failed; empty when it did not."""
    lines = staging / "requirements.txt"
    lines.write_text("".join(f"{entry.requirement}\n" for entry in batch), "utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--no-input"]
    command += [*target_options(python), *options, "--progress-bar", "off", "--disable-pip-version-check"]
    command += ["--dest", str(staging), "--requirement", str(lines)]
    # A user's wish to install into virtual environments only does not concern a download.
    environment = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr or done.stdout or f"exit code {done.returncode}"


def _refusal(entry: Entry, said: str) -> BundleError:
    wheel = f"the wheel of {entry.name} {entry.version}"
    got = re.search(r"Got\s+([0-9a-f]{64})", said)
    if got:
        return BundleError(
            f"{wheel} has the sha256 {got[1]}, not the locked {' or '.join(entry.hashes)}",
            hint="the index offers another file under this version: do not use it",
        )
    if "No module named pip" in said:
        return BundleError("pip is missing from pdctl's Python", hint=f"{sys.executable} -m ensurepip")
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR:")]
    reason = errors[0] if errors else (said.strip().splitlines() or ["pip left no such file"])[-1]
    return BundleError(
        f"{wheel} cannot be had: {reason}", hint="check pip's index and network, then run this again"
    )
