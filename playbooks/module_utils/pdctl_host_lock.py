"""One change at a time on a host: an earlier module may still run after its connection was lost."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from ansible.module_utils.pdctl_audience import stay_for_audience
from ansible.module_utils.pdctl_difference import Problem

LOCKED = "/var/lib"  # locked as a folder: nothing to create, nothing left behind, freed when the process ends
LOCK_S = 900


@contextlib.contextmanager
def host_lock() -> Iterator[None]:
    folder = os.open(LOCKED, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + LOCK_S
        while True:
            stay_for_audience()
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Problem(f"another pdctl has been at work on this host for {LOCK_S} s") from None
                time.sleep(0.2)
        yield
    finally:
        os.close(folder)
