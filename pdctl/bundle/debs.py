"""Names of Debian packages -> their files, fetched with apt-get from this machine's own apt sources."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pdctl.bundle.manifest import PARTIAL, sha256_of
from pdctl.errors import BundleError

_RELEASE = ("debian", "bookworm")
"""What hosts of the CPU engine run: its wheels are for Python 3.11, which is this release's own."""


def download_deb(name: str, folder: Path) -> Path:
    """apt checks the file against its signed index; pdctl checks it against apt's word again."""
    folder.mkdir(parents=True, exist_ok=True)
    file, digest = _offer(name)
    target = folder / file
    if target.is_file() and sha256_of(target) == digest:
        return target
    with tempfile.TemporaryDirectory(dir=folder, prefix=PARTIAL) as staging:
        _apt_get(["download", name], name, Path(staging))
        got = Path(staging, file)
        if not got.is_file() or sha256_of(got) != digest:
            raise BundleError(f"apt-get left no {file} with sha256 {digest}")
        return got.replace(target)


def release_note(names: Sequence[str]) -> str:
    """What to know when packages come from another release than the hosts'; empty if they do not."""
    about = platform.freedesktop_os_release()
    here = (about.get("ID", ""), about.get("VERSION_CODENAME", ""))
    if here == _RELEASE:
        return ""
    return f"{', '.join(names)}: taken from {' '.join(here)}, hosts are expected to run {' '.join(_RELEASE)}"


def _offer(name: str) -> tuple[str, str]:
    """The file apt would fetch, as its index says: `'URI' FILE SIZE SHA256:DIGEST`."""
    said = _apt_get(["--print-uris", "download", name], name, Path("/"))
    match = re.search(r"^'\S+' (\S+) \d+ SHA256:([0-9a-f]{64})$", said, re.MULTILINE)
    if match is None:
        raise BundleError(
            f"apt-get says nothing of a file of {name}: {said.strip()!r}", hint="apt-get update"
        )
    # A version's epoch is written as %3a in file names, as apt leaves it on disk.
    return match[1], match[2]


def _apt_get(words: Sequence[str], name: str, folder: Path) -> str:
    # Unsandboxed: apt's own user cannot write into our folder; apt would only warn and do the same.
    command = ["apt-get", "--quiet=2", "--option", "APT::Sandbox::User=root", *words]
    unlike_locale = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=unlike_locale, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise BundleError(f"{name} is fetched with apt-get, which this machine does not have") from None
    if done.returncode:
        lines = [line.removeprefix("E: ") for line in done.stderr.splitlines() if line.startswith("E: ")]
        reason = lines[0] if lines else done.stderr.strip()
        hint = "apt-get update, then run this again"
        raise BundleError(f"the package {name} cannot be had: {reason}", hint=hint)
    return done.stdout
