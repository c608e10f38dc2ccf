"""Connections made of others: proxy commands below ssh, forwards above it."""

from __future__ import annotations

import contextlib
import http.server
import os
import socket
import socketserver
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdctl.errors import HostError, UnreachableError
from pdctl.hosts.session import open_session
from tests.hosts_unit.sshd import SSHD, Sshd, free_port, running

pytestmark = pytest.mark.skipif(SSHD is None, reason="sshd is not installed (apt-get install openssh-server)")

RELAY = "socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
PIPES = f"import socket, sys, os, threading; s = {RELAY}\n" + (
    "def up():\n    while data := os.read(0, 65536): s.sendall(data)\n"
    "threading.Thread(target=up, daemon=True).start()\n"
    "while data := s.recv(65536): os.write(1, data)\n"
)
FDPASS = f"import socket, sys; s = {RELAY}; socket.send_fds(socket.socket(fileno=1), [b'x'], [s.fileno()])"


@pytest.mark.parametrize(("script", "fdpass"), [(PIPES, "no"), (FDPASS, "yes")])
def test_a_proxy_command_is_used_and_leaves_no_process(
    server: Sshd, tmp_path: Path, script: str, fdpass: str
) -> None:
    at, before = _proxied(server, tmp_path, script, fdpass), _children()
    with open_session(at) as session:
        assert session.run(b"print(1)").out == b"1\n"
    assert _children() <= before  # this process may have some of other tests


@pytest.mark.parametrize("fdpass", ["no", "yes"])
def test_a_proxy_command_that_fails_is_quoted_and_leaves_no_process(
    server: Sshd, tmp_path: Path, fdpass: str
) -> None:
    at = _proxied(server, tmp_path, "import sys; sys.exit('no route to the rack')", fdpass)
    before = _children()
    with pytest.raises(UnreachableError, match="no route to the rack"):
        open_session(at)
    assert _children() <= before  # this process may have some of other tests


def test_something_else_than_sshd_is_said(server: Sshd) -> None:
    with _web_server() as port, pytest.raises(UnreachableError, match="no ssh connection"):
        open_session(server.reach(port=port))


def test_a_forward_leads_to_a_port_of_the_host(server: Sshd) -> None:
    with _web_server() as port, open_session(server.reach()) as session:
        address, local = session.forward("127.0.0.1", port)
        assert (address, local) == session.forward("127.0.0.1", port) != ("127.0.0.1", port)
        for _ in range(3):
            with urllib.request.urlopen(f"http://{address}:{local}/", timeout=5) as answer:
                assert answer.status == 200
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((address, local), 1)


def test_a_forward_to_a_port_where_nothing_listens_closes_the_connection(server: Sshd) -> None:
    with open_session(server.reach()) as session:
        at = session.forward("127.0.0.1", free_port())
        with socket.create_connection(at, 5) as client:
            assert client.recv(1) == b""


def test_a_host_that_forbids_forwarding_says_so(tmp_path: Path) -> None:
    with (
        running(tmp_path / "sshd", options="AllowTcpForwarding no") as strict,
        open_session(strict.reach()) as session,
        pytest.raises(HostError, match="does not allow port forwarding"),
    ):
        session.forward("127.0.0.1", 1)


def test_many_connections_go_through_one_forward_at_once(server: Sshd) -> None:
    """All are open before the first is used; each gets its own bytes back, to the last."""
    with _echo() as port, open_session(server.reach()) as session:
        at = session.forward("127.0.0.1", port)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(at, 10)) for _ in range(60)]
            for number, client in enumerate(clients):
                client.sendall(bytes([number]) * 100_000)
                client.shutdown(socket.SHUT_WR)
            for number, client in enumerate(clients):
                assert b"".join(iter(lambda c=client: c.recv(1 << 16), b"")) == bytes([number]) * 100_000


def test_a_closed_session_closes_what_it_forwards(server: Sshd) -> None:
    with _echo() as port:
        with open_session(server.reach()) as session:
            client = socket.create_connection(session.forward("127.0.0.1", port), 10)
            client.sendall(b"x")
            assert client.recv(1) == b"x"
        with client:
            assert client.recv(1) == b""


def _proxied(server: Sshd, folder: Path, script: str, fdpass: str) -> object:
    (folder / "relay.py").write_text(script)
    config = folder / "config"
    config.write_text(
        f"Host *\n  ProxyCommand /usr/bin/python3 {folder}/relay.py %p\n  ProxyUseFdpass {fdpass}\n"
    )
    return server.reach(config=str(config), become=False)


def _children() -> set[str]:
    """This process's children by pid and command, zombies included, but for the servers of the tests."""
    listing = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True, check=False
    )
    return {line for line in listing.stdout.splitlines() if "sshd" not in line and " ps --ppid" not in line}


@contextlib.contextmanager
def _web_server() -> Iterator[int]:
    handler = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *a: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def _echo() -> Iterator[int]:
    """Gives back what it gets, in pieces, while it comes."""

    class Echo(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while data := self.request.recv(1 << 12):
                self.request.sendall(data)

    socketserver.ThreadingTCPServer.request_queue_size = 100
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
