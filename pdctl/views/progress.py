"""Events of a running step -> a live tree on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text
from rich.tree import Tree

MARK = {"ok": ("✓", "green"), "failed": ("✗", "red"), "unreachable": ("✗", "red")}


@dataclass
class Step:
    """What is known of one step: when it began, what each host ended, what each is at, notes."""

    began: float
    ended: dict[str, list[Text]] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Progress:
    """Steps with their hosts below. Use as a context manager around the work."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._steps: dict[str, Step] = {}
        self._current = ""
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(self, console=self._console, refresh_per_second=8, transient=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def step(self, title: str) -> None:
        """A step may begin; it is shown as soon as a host or a note belongs to it."""
        if self._current in self._steps:
            self._steps[self._current].running.clear()
        self._current = title

    def begin(self, host: str, task: str) -> None:
        """`host` begins a task of the current step."""
        self._step().running[host] = task

    def skipped(self, host: str) -> None:
        """`host` had nothing to do in the task it began."""
        self._step().running.pop(host, None)

    def done(self, host: str, status: str, details: list[str]) -> None:
        """`host` ended a task of the current step."""
        step = self._step()
        mark, style = MARK.get(status, ("-", "dim"))
        line = Text.assemble((f"{mark} ", style), host, (f"  {self._clock() - step.began:.1f} s", "dim"))
        for detail in details:
            line.append(f"\n    {detail}", style="dim")
        step.running.pop(host, None)
        step.ended.setdefault(host, []).append(line)
        if not self._live:
            self._console.print(Text("  ").append_text(line))

    def note(self, text: str) -> None:
        """A line about the current step."""
        self._step().notes.append(text)
        if not self._live:
            self._console.print(Text(f"  {text}"))

    def _step(self) -> Step:
        if self._current not in self._steps:
            self._steps[self._current] = Step(self._clock())
            if not self._live:
                self._console.print(Text(self._current))
        return self._steps[self._current]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tree = Tree("", hide_root=True)
        for title, step in self._steps.items():
            branch = tree.add(Text(title, style="bold"))
            for note in step.notes[-1:]:
                branch.add(Text(note))
            for host in dict.fromkeys([*step.ended, *step.running]):
                for line in step.ended.get(host, []):
                    branch.add(line)
                if host in step.running:
                    waited = self._clock() - step.began
                    branch.add(Spinner("dots", Text(f"{host}  {waited:.0f} s  {step.running[host]}")))
        yield tree
