"""A command -> the same command, ended by the kernel when the process that starts it dies, kill -9 included.

Run as a script, it becomes the command. Without it Ansible would go on alone to change hosts, beside the
next apply: ansible-runner lets it ignore its terminal's hang-up (ignore_sighup, ansible-runner 2.4).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1  # prctl(2); Linux alone has it


def leashed(command: Sequence[str]) -> list[str]:
    """To be started by this very process."""
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def become(holder: int, command: list[str]) -> None:
    """Ansible ends its workers on SIGTERM as on a Ctrl-C (2.19: executor/task_queue_manager.py)."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == holder:  # else it died before the line above
        os.execvp(command[0], command)


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
