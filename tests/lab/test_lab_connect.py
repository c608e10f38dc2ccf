import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdctl.lab import connect

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="joining a network namespace needs root")
HERE = "/proc/self/ns/net"
ROUND = b"0123456789abcdef" * (1 << 16)  # 1 MiB: more than any pipe or socket buffers


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it got, once it has all of it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                got = b"".join(iter(lambda: connection.recv(1 << 16), b""))
                connection.sendall(got)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(5)


def argv(port: int, netns: str = HERE) -> list[str]:
    return [sys.executable, "-I", "-S", connect.__file__, netns, "127.0.0.1", str(port)]


def test_pipes_are_relayed_both_ways_and_end_with_the_connection(echo: int) -> None:
    done = subprocess.run(argv(echo), input=ROUND, capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == ROUND


def test_a_socket_as_stdin_and_stdout_is_sent_the_connection_itself(echo: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, subprocess.Popen(argv(echo), stdin=theirs, stdout=theirs) as child:
        theirs.close()
        _, descriptors, *_ = socket.recv_fds(ours, 1, 1)
        assert child.wait(10) == 0
    with socket.socket(fileno=descriptors[0]) as connection:
        connection.sendall(b"hello")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(10) == b"hello"


def test_a_refused_connection_is_one_line_and_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = subprocess.run(argv(port), capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"pdctl lab: connect to 127.0.0.1 port {port}: [Errno 111] Connection refused\n"


def test_a_lab_that_is_not_up_is_said_to_be_so(tmp_path: Path) -> None:
    done = subprocess.run(argv(1, f"{tmp_path}/net"), capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert done.stderr == f"pdctl lab: the lab of {tmp_path}/net is not up: run `pdctl lab up`\n"


def test_the_script_needs_the_standard_library_alone(tmp_path: Path, echo: int) -> None:
    alone = shutil.copy(connect.__file__, tmp_path)
    command = [sys.executable, "-I", "-S", alone, HERE, "127.0.0.1", str(echo)]
    assert subprocess.run(command, input=b"x", capture_output=True, timeout=20, check=True).stdout == b"x"


def test_the_thread_is_back_in_its_own_network_whatever_happens_inside() -> None:
    before = Path("/proc/thread-self/ns/net").readlink()
    with pytest.raises(ZeroDivisionError), connect.joined(HERE):
        _ = 1 / 0
    assert Path("/proc/thread-self/ns/net").readlink() == before
