"""Release files as vendors have them: of an origin, and signed, with a key that has expired or not."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

OLD, NEW = "Old Vendor <old@example.org>", "New Vendor <new@example.org>"
LONG_AGO = "20240101T000000"


def release(folder: Path, origin: str, label: str) -> None:
    """Of a flat repository, unsigned."""
    packages = (folder / "Packages").read_bytes()
    digest = hashlib.sha256(packages).hexdigest()
    (folder / "Release").write_text(
        f"Origin: {origin}\nLabel: {label}\nDate: Mon, 01 Jan 2024 00:00:00 UTC\n"
        f"SHA256:\n {digest} {len(packages)} Packages\n"
    )


def make_keys(home: Path, public: Path) -> None:
    """Of two vendors, `old.gpg` and `new.gpg` in `public`: the old one was good for 30 days in 2024."""
    home.mkdir(mode=0o700)
    _gpg(home, "--faked-system-time", LONG_AGO, "--quick-generate-key", OLD, "ed25519", "sign", "30d")
    _gpg(home, "--quick-generate-key", NEW, "ed25519", "sign", "never")
    for owner, name in ((OLD, "old.gpg"), (NEW, "new.gpg")):
        (public / name).write_bytes(_gpg(home, "--export", owner))


def public_key(home: Path, owner: str) -> str:
    """As text."""
    return _gpg(home, "--export", "--armor", owner).decode()


def sign(folder: Path, home: Path, owner: str) -> None:
    when = ["--faked-system-time", LONG_AGO] if owner == OLD else []
    signed = _gpg(home, *when, "--local-user", owner, "--clearsign", "--output", "-", str(folder / "Release"))
    (folder / "InRelease").write_bytes(signed)


def end_agent(home: Path) -> None:
    """gpg leaves one running for each home."""
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True)


def _gpg(home: Path, *words: str) -> bytes:
    command = ["gpg", "--homedir", str(home), "--batch", "--yes", "--quiet", "--passphrase", ""]
    return subprocess.run([*command, *words], check=True, capture_output=True).stdout
