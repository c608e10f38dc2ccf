"""A real sshd on loopback, an ordinary child process with keys of its own, for the tests of pdctl.hosts."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pdctl.hosts.reach import Reach

SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
USER = getpass.getuser()


@dataclass
class Sshd:
    """One running sshd; `key` may log in, `known_hosts` knows its keys."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    types: tuple[str, ...]
    key: Path = field(init=False)
    known_hosts: Path = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.folder / "id"
        self.known_hosts = self.folder / "known_hosts"

    def reach(self, **changes: object) -> Reach:
        given: dict[str, object] = {
            "name": "h1",
            "address": "127.0.0.1",
            "user": USER,
            "port": self.port,
            "key": str(self.key),
            "config": "/dev/null",
            "known_hosts": str(self.known_hosts),
        }
        return Reach(**(given | changes))  # type: ignore[arg-type]

    def know(self, *types: str, name: str | None = None) -> None:
        """Write known_hosts anew, with the keys of `types` alone."""
        lines = [f"{name or f'[127.0.0.1]:{self.port}'} {self.host_key(kind)}" for kind in types]
        self.known_hosts.write_text("\n".join(lines) + "\n")

    def host_key(self, kind: str) -> str:
        return " ".join((self.folder / f"host_{kind}.pub").read_text().split()[:2])

    def log(self) -> str:
        return (self.folder / "log").read_text()


@contextlib.contextmanager
def running(folder: Path, *types: str, options: str = "") -> Iterator[Sshd]:
    """An sshd with host keys of `types` (ed25519 when none is given)."""
    folder.mkdir(exist_ok=True)
    types = types or ("ed25519",)
    for kind in types:
        make_key(folder / f"host_{kind}", kind)
    make_key(folder / "id", "ed25519")
    shutil.copy(folder / "id.pub", folder / "authorized_keys")
    _separation_folder()
    port = free_port()
    (folder / "config").write_text(_config(folder, types, options))
    process = subprocess.Popen(
        [str(SSHD), "-D", "-e", "-p", str(port), "-f", str(folder / "config")],
        stderr=(folder / "log").open("wb"),
        stdin=subprocess.DEVNULL,
    )
    try:
        server = Sshd(folder, port, process, types)
        _wait_for_banner(server)
        server.know(*types)
        yield server
    finally:
        process.terminate()
        process.wait(10)


def make_key(path: Path, kind: str, passphrase: str = "") -> Path:
    words = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path)]
    subprocess.run([*words, *(["-b", "2048"] if kind == "rsa" else [])], check=True, stdin=subprocess.DEVNULL)
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _config(folder: Path, types: tuple[str, ...], options: str) -> str:
    lines = [f"HostKey {folder}/host_{kind}" for kind in types]
    lines += [
        "ListenAddress 127.0.0.1",
        "PidFile none",
        f"AuthorizedKeysFile {folder}/authorized_keys",
        "StrictModes no",
        "UsePAM no",
        "PermitRootLogin yes",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "MaxStartups 100",
    ]
    return "\n".join([*lines, options]) + "\n"


def _separation_folder() -> None:
    """sshd run by root insists on this folder, and another test's sshd may need it after us: it stays."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def _wait_for_banner(server: Sshd) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and server.process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 1) as sock:
            if sock.recv(4) == b"SSH-":
                return
    raise AssertionError(f"sshd does not start: {server.log()}")
