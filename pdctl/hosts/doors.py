"""Ways from the controller to the ports of the cluster: straight when they answer, else through ssh."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from pdctl.errors import PdctlError
from pdctl.hosts.gateways import Gateways
from pdctl.hosts.openssh import resolve
from pdctl.hosts.parallel import on_each
from pdctl.hosts.reach import Reach, reach
from pdctl.hosts.session import Session, open_session
from pdctl.topology.model import Topology

# A front door in the same network answers within a fraction of this.
DIRECT_TIMEOUT_S = 1.0


class Doors:
    """Open ssh sessions and forwards to the hosts of one cluster, closed together."""

    def __init__(self, topology: Topology, folder: Path) -> None:
        self._topology = topology
        self._folder = folder
        self._sessions: dict[str, Session] = {}
        self._gateways = Gateways()  # hosts behind one jump host share the connection to it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._gateways.close()

    def open(self, hosts: Iterable[str]) -> None:
        """Open the sessions to `hosts` all at once; one after another each would wait for the last.

        Raises the first host's UnreachableError or HostError, after the others were tried.
        """
        missing = {name: self._reach(name) for name in dict.fromkeys(hosts) if name not in self._sessions}
        problems: list[PdctlError] = []
        for name, outcome in on_each(missing, lambda at: open_session(at, self._gateways)):
            if isinstance(outcome, PdctlError):
                problems.append(outcome)
            else:
                self._sessions[name] = outcome
        if problems:
            raise problems[0]

    def session(self, host: str) -> Session:
        """The session to `host`, opened at its first use. Raises UnreachableError or HostError."""
        if host not in self._sessions:
            self._sessions[host] = open_session(self._reach(host), self._gateways)
        return self._sessions[host]

    def tunnel(self, host: str, address: str, port: int) -> tuple[str, int]:
        """Where `address:port`, as `host` sees it, can be reached from here while the doors are open."""
        return self.session(host).forward(address, port)

    def best(self, host: str, address: str, port: int) -> tuple[tuple[str, int] | None, str]:
        """(None, "direct") when the port answers from here, else (tunnel, "ssh tunnel").

        A host that ssh reaches only through another program or host lies in another network, where the same
        address may be somebody else's: it is never tried directly.
        """
        if self._behind_something(host):
            return self.tunnel(host, address, port), "ssh tunnel"
        try:
            socket.create_connection((address, port), DIRECT_TIMEOUT_S).close()
            return None, "direct"
        except OSError:
            return self.tunnel(host, address, port), "ssh tunnel"

    def _behind_something(self, host: str) -> bool:
        at = self._reach(host)
        if at.connection == "local":
            return False
        login = resolve(at)
        return bool(at.jump or login.jumps or login.proxy_command)

    def _reach(self, host: str) -> Reach:
        spec = next(h for h in self._topology.spec.hosts if h.name == host)
        return reach(self._topology.spec, spec, self._folder)
