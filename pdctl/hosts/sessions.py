"""Connections to the hosts of a cluster: opened at first use, kept for the next, opened anew when broken."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from pdctl.errors import PdctlError, UnreachableError
from pdctl.hosts.gateways import Gateways
from pdctl.hosts.reach import Reach, reach
from pdctl.hosts.session import Result, Session, open_session
from pdctl.hosts.timing import laps
from pdctl.spec.model import Cluster

# Connections that stay open between looks; each holds a socket and three threads, and a process has 1,024
# open files by default (getrlimit(2), RLIMIT_NOFILE). Those beyond are opened for each use.
KEPT = 200


def sessions_for(cluster: Cluster, folder: Path, keep: int = KEPT) -> Sessions:
    """To all hosts of the spec that lies in `folder`."""
    return Sessions({host.name: reach(cluster, host, folder) for host in cluster.hosts}, keep)


class Reply(NamedTuple):
    """How a program ended, and as whom it was started."""

    result: Result
    user: str
    reach: Reach


class Sessions:
    """For any number of threads, one per host at a time. Programs must bear being run twice."""

    def __init__(self, reaches: Mapping[str, Reach], keep: int = KEPT) -> None:
        self._reaches = reaches
        self._gateways = Gateways()  # hosts behind one jump host share the connection to it
        self._open: dict[str, Session] = {}
        self._keep = keep
        self._guard = threading.Lock()

    @property
    def hosts(self) -> tuple[str, ...]:
        """In the order of the spec."""
        return tuple(self._reaches)

    def run(self, host: str, program: bytes, timeout_s: float = 60.0, what: str = "ask") -> Reply:
        """Run a Python program on `host`. A connection that was kept and has broken since is opened again."""
        with self._guard:
            kept = self._open.pop(host, None)
        if kept is not None:
            try:
                return self._run(host, kept, program, timeout_s, what)
            except UnreachableError:
                kept.close()
        return self._run(host, open_session(self._reaches[host], self._gateways), program, timeout_s, what)

    def close(self) -> None:
        with self._guard:
            sessions = list(self._open.values())
            self._open.clear()
        for session in sessions:
            session.close()
        self._gateways.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, host: str, session: Session, program: bytes, timeout_s: float, what: str) -> Reply:
        try:
            with laps(what, host):
                result = session.run(program, timeout=timeout_s)
        except PdctlError:
            session.close()
            raise
        reply = Reply(result, session.user, self._reaches[host])
        with self._guard:
            room = len(self._open) < self._keep
            if room:
                self._open[host] = session
        if not room:
            session.close()
        return reply
