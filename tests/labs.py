"""Virtual hosts for any test that needs real ones: `with lab_hosts(2, tmp_path_factory) as lab: ...`."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from pdctl.lab import Bind, Lab


@contextmanager
def lab_hosts(
    count: int, tmp_path_factory: pytest.TempPathFactory, binds: Sequence[Bind] = (), prefix: str = "h"
) -> Iterator[Lab]:
    """A lab with `count` hosts that answer on ssh, gone at the end; all labs share one base tree."""
    with Lab(tmp_path_factory.mktemp("a lab"), report=print) as lab:
        lab.up(count, prefix, binds)
        yield lab


def until(condition: Callable[[], object], timeout: float = 20.0) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.005)


def ssh(lab: Lab, host: str, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `command` in the host as its user `ops`, by OpenSSH."""
    words = ["ssh", "-F", str(lab.ssh_config), *options, host, command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def inside(lab: Lab, host: str, command: str) -> str:
    """What `command` prints in the host as root, without ssh."""
    done = lab.exec(host, ["sh", "-c", command])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
