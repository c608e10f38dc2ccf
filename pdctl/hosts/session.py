"""Reach -> Session: one way to run programs on a host, over ssh or on this very machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from pdctl.hosts.gateways import Gateways
from pdctl.hosts.reach import PYTHON, Reach
from pdctl.hosts.timing import laps

PROGRAM = (PYTHON, "-I", "-S", "-")  # Python reading a program from stdin, without the user's site packages


@dataclass(frozen=True)
class Result:
    """How a program ended."""

    rc: int
    out: bytes
    err: bytes

    @property
    def last_words(self) -> str:
        """The end of stderr, for a message."""
        lines = self.err.decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-5:])


class Session(Protocol):
    """A connection to one host, open until it is closed."""

    reach: Reach

    @property
    def user(self) -> str:
        """Who is logged in."""

    def run(self, program: bytes, argv: Sequence[str] = PROGRAM, timeout: float = 60.0) -> Result:
        """Feed `program` to `argv`, as root where the spec says `become`; wait for its end."""

    def stream(self, argv: Sequence[str]) -> Iterator[str]:
        """What `argv` prints, as it comes."""

    def forward(self, address: str, port: int) -> tuple[str, int]:
        """Where on this machine the host's `address:port` can be reached while the session lives."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def as_root(reach: Reach, user: str, argv: Sequence[str]) -> list[str]:
    """`argv` under sudo where the spec asks for it; in English, since its complaints are read."""
    if not reach.become or user == "root":
        return list(argv)
    return ["env", "LC_ALL=C", "sudo", "-n", "--", *argv]


def open_session(reach: Reach, gateways: Gateways | None = None) -> Session:
    """Open a session; hosts behind the same jump host share its connection when they share `gateways`."""
    if reach.connection == "local":
        from pdctl.hosts.local import LocalSession

        return LocalSession(reach)
    with laps("log in", reach.name):
        from pdctl.hosts.ssh import SshSession

        return SshSession(reach, gateways)
