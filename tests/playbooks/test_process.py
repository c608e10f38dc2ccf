"""What /proc tells of a unit's processes."""

from __future__ import annotations

import mmap
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.module_utils.pdctl_process import bytes_read, loaded_twice, short_limits

FILES, STACK, CORE = "Max open files", "Max stack size", "Max core file size"


@pytest.fixture
def narrow() -> Iterator[subprocess.Popen[bytes]]:
    """A process that may open 512 files."""
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))  # noqa: E731
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, preexec_fn=few) as process:
        yield process


@pytest.mark.parametrize(
    ("least", "words"),
    [
        ("512", []),
        ("513", ["Max open files is 512, it needs 513"]),
        ("unlimited", ["Max open files is 512, it needs unlimited"]),
    ],
)
def test_a_limit_that_falls_short_is_told_with_both_numbers(
    narrow: subprocess.Popen[bytes], least: str, words: list[str]
) -> None:
    assert short_limits({"limits": [[FILES, least]]}, narrow.pid) == words


def test_what_is_unlimited_never_falls_short() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_CPU)
    assert soft == resource.RLIM_INFINITY
    assert short_limits({"limits": [["Max cpu time", "unlimited"]]}, os.getpid()) == []


def test_a_unit_that_asks_for_no_limits_or_does_not_run_has_none() -> None:
    assert short_limits({}, os.getpid()) == short_limits({"limits": [[FILES, "unlimited"]]}, 0) == []


def test_what_all_processes_have_read_is_added_up(tmp_path: Path) -> None:
    size = 3_000_000
    (tmp_path / "weights").write_bytes(bytes(size))
    script = "import sys; open(sys.argv[1], 'rb').read(); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, tmp_path / "weights"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as one, subprocess.Popen(command, **pipes) as two:  # type: ignore[call-overload]
        for process in (one, two):
            process.stdout.readline()
        assert 2 * size <= bytes_read([one.pid, two.pid]) < 20 * size
        for process in (one, two):
            process.stdin.close()


def test_a_library_that_is_loaded_twice_is_told_with_both_files(tmp_path: Path) -> None:
    maps = []
    for name in ("libucp.so.0", "libucp-0abc.so.0.0.0", "libucprefix.so"):
        (tmp_path / name).write_text("x")
        with (tmp_path / name).open("rb") as handle:
            maps.append(mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ))
    both = [str(tmp_path / "libucp-0abc.so.0.0.0"), str(tmp_path / "libucp.so.0")]
    assert loaded_twice([os.getpid()], "libucp") == both
    maps[0].close()
    assert loaded_twice([os.getpid()], "libucp") == []
