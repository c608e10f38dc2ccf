"""Who holds a port, told from real sockets of real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from ansible.module_utils.pdctl_sockets import command_of, listeners, other_holder, sockets_of, unit_of

ME = os.getpid()
SHARING = """
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen()
print("listening", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_listener_is_found_by_port_and_address(family: socket.AddressFamily, address: str) -> None:
    with socket.create_server((address, 0), family=family) as server:
        found = listeners(server.getsockname()[1], address)
        assert found == {str(os.fstat(server.fileno()).st_ino)} and found <= sockets_of(ME)


def test_one_at_every_address_is_found_and_one_at_another_address_is_not() -> None:
    with socket.create_server(("127.0.0.2", 0)) as there:
        port = there.getsockname()[1]
        with socket.create_server(("127.0.0.1", port)) as here:
            assert listeners(port, "127.0.0.1") == {str(os.fstat(here.fileno()).st_ino)}
    with socket.create_server(("", 0)) as server:
        assert listeners(server.getsockname()[1], "127.0.0.1")


def test_a_connection_is_no_listener() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert listeners(client.getsockname()[1], "127.0.0.1") == set()


def test_a_port_of_the_units_main_process_has_no_other_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert other_holder(url(server), "u.service", ME) == ("", "")


def test_a_port_of_another_process_is_named_with_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = unit_of(ME) or command_of(ME)
        port = server.getsockname()[1]
        assert other_holder(url(server), "u.service", 0) == (
            f"port {port} is held by {name} (pid {ME})",
            name,
        )
        assert other_holder(url(server), name, 0) == ("", "")


def test_a_port_shared_with_another_process_is_not_the_units_own() -> None:
    """Two engines of one user can: each would get a part of the connections."""
    with socket.socket() as mine:
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        mine.bind(("127.0.0.1", 0))
        mine.listen()
        port = mine.getsockname()[1]
        words = [sys.executable, "-c", SHARING, str(port)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None and other.stdout.readline() == b"listening\n"
            reason, _ = other_holder(url(mine), "u.service", ME)
            assert reason.startswith(f"port {port} is held by ")
            other.communicate()


def test_a_port_that_nobody_holds_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = url(server)
    port = free.rsplit(":", 1)[1]
    assert other_holder(free, "u.service", ME) == (f"no process of this host listens on port {port}", "")


def url(server: socket.socket) -> str:
    return f"http://127.0.0.1:{server.getsockname()[1]}"
