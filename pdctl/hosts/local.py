"""Reach -> a session on this very machine (`connection: local`), by subprocess."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from pdctl.errors import HostError
from pdctl.hosts.reach import Reach
from pdctl.hosts.session import PROGRAM, Result, as_root

NOT_FOUND = 127


class LocalSession:
    """The same programs as over ssh, without ssh."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.user = "root" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name

    def run(self, program: bytes, argv: Sequence[str] = PROGRAM, timeout: float = 60.0) -> Result:
        words = as_root(self.reach, self.user, argv)
        try:
            done = subprocess.run(words, input=program, capture_output=True, timeout=timeout)
        except FileNotFoundError as error:
            return Result(NOT_FOUND, b"", f"{error.filename}: not found".encode())
        except subprocess.TimeoutExpired:
            text = f"`{shlex.join(argv)}` has not ended after {timeout:g} s"
            raise HostError(text, where=self.reach.name) from None
        return Result(done.returncode, done.stdout, done.stderr)

    def stream(self, argv: Sequence[str]) -> Iterator[str]:
        words = as_root(self.reach, self.user, argv)
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield from process.stdout
            finally:
                process.stdout.close()  # journalctl -f ends by that, under sudo too
                with contextlib.suppress(PermissionError):  # sudo runs as root
                    process.terminate()

    def forward(self, address: str, port: int) -> tuple[str, int]:
        return address, port

    def close(self) -> None:
        """Nothing is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
