"""Points at which an apply is ended, drawn by seeds over the time that the same apply took undisturbed."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, NamedTuple

SIGNALS = (signal.SIGKILL, signal.SIGINT)
BEFORE = "look, plan and lock"  # until the first step


class Said(NamedTuple):
    """A line of progress, and when it came: seconds after the start."""

    at: float
    line: str

    @property
    def is_step(self) -> bool:
        return bool(self.line) and not self.line.startswith(" ")


@dataclass(frozen=True)
class Point:
    """`later` seconds after the step `step` began: tied to the run's events, since runs differ in speed."""

    number: signal.Signals
    step: str
    later: float


def draw(seed: int, timeline: Sequence[Said]) -> Point:
    """Any moment is as likely as any other; the last entry of the timeline is the end."""
    at = random.Random(seed).uniform(0, timeline[-1].at)
    began = Said(0.0, BEFORE)
    for said in timeline:
        if said.is_step and said.at <= at:
            began = said
    # The change goes to and fro with each seed: each signal meets both.
    return Point(SIGNALS[seed // 2 % len(SIGNALS)], began.line, at - began.at)


@dataclass
class Heard:
    """What a running pdctl has said so far."""

    running: subprocess.Popen[str]
    started: float = field(default_factory=time.monotonic)
    timeline: list[Said] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)
    ended: bool = False

    def __post_init__(self) -> None:
        assert self.running.stderr and self.running.stdout
        self._readers = [
            threading.Thread(target=self._read, args=(self.running.stderr,), daemon=True),
            threading.Thread(target=self.running.stdout.read, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._tell(line.rstrip("\n"))
        with self.news:
            self.ended = True
            self.news.notify_all()

    def _tell(self, line: str) -> None:
        with self.news:
            self.timeline.append(Said(time.monotonic() - self.started, line))
            self.news.notify_all()

    def wait(self, timeout: float) -> list[Said]:
        """To the end, which is the last entry."""
        self.running.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        self._tell("")
        return self.timeline

    def end_at(self, point: Point, timeout: float) -> str:
        """Send the signal there; the step that it hit. A run that ends before was hit nowhere."""
        begun = lambda: self.ended or any(said.line == point.step for said in self.timeline)  # noqa: E731
        with self.news:
            if point.step != BEFORE:
                assert self.news.wait_for(begun, timeout), point
        try:
            self.running.wait(point.later)
        except subprocess.TimeoutExpired:
            hit = next((said.line for said in reversed(self.timeline) if said.is_step), BEFORE)
            self.running.send_signal(point.number)
        else:
            hit = "after its end"
        self.wait(timeout)
        return hit
