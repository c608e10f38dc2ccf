"""A module whose controller has gone: it waits no longer, and does nothing that waited for its turn."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.pdctl_audience import is_unheard
from ansible.module_utils.pdctl_host_lock import LOCKED
from ansible.module_utils.pdctl_observe_generations import AT_WORK, is_busy

from pdctl.assets import assets

WAITING = """
import sys
import ansible.module_utils
ansible.module_utils.__path__.append(sys.argv[1])
from ansible.module_utils import pdctl_host_lock
pdctl_host_lock.LOCKED = sys.argv[2]
sys.stderr.write("waits\\n")
try:
    with pdctl_host_lock.host_lock():
        sys.stderr.write("works\\n")
except pdctl_host_lock.Problem as problem:
    sys.stderr.write(f"{problem}\\n")
"""


def test_a_pipe_is_heard_until_its_reader_leaves() -> None:
    reader, writer = os.pipe()
    assert not is_unheard(writer)
    os.close(reader)
    assert is_unheard(writer)
    os.close(writer)


def test_a_socket_is_heard_until_its_other_end_leaves() -> None:
    near, far = socket.socketpair()
    assert not is_unheard(near.fileno())
    far.close()
    assert is_unheard(near.fileno())
    near.close()


def test_a_file_is_always_heard(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file, Path(os.devnull).open("w") as null:
        assert not is_unheard(file.fileno()) and not is_unheard(null.fileno())


@pytest.mark.parametrize(("leaves", "said"), [(True, "the controller has left"), (False, "works")])
def test_who_waits_for_its_turn_takes_it_only_while_somebody_listens(
    tmp_path: Path, leaves: bool, said: str
) -> None:
    command = [sys.executable, "-c", WAITING, str(assets("playbooks") / "module_utils"), str(tmp_path)]
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as module:
        assert module.stdout and module.stderr and module.stderr.readline() == "waits\n"
        if leaves:
            module.stdout.close()
        else:
            os.close(folder)
        assert module.stderr.readline().startswith(said)
        module.wait(timeout=10)
    if leaves:
        os.close(folder)


def test_a_module_at_work_is_seen_and_not_disturbed(tmp_path: Path) -> None:
    assert AT_WORK == LOCKED and not is_busy(str(tmp_path))
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert is_busy(str(tmp_path)) and is_busy(str(tmp_path))
    os.close(folder)
    assert not is_busy(str(tmp_path))
