"""Events of a running step -> a live tree on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text
from rich.tree import Tree

MARK = {"ok": ("✓", "green"), "failed": ("✗", "red"), "unreachable": ("✗", "red")}


class Progress:
    """Steps with their hosts below. Use as a context manager around the work."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._steps: dict[str, dict[str, Text | str]] = {}  # a host's line, or the task it is at
        self._began: dict[str, float] = {}
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
        self._current = title

    def begin(self, host: str, task: str) -> None:
        """`host` begins a task of the current step."""
        self._show_step()[host] = task

    def done(self, host: str, status: str, details: list[str]) -> None:
        """`host` ended a task of the current step."""
        mark, style = MARK.get(status, ("-", "dim"))
        step = self._show_step()
        seconds = self._clock() - self._began[self._current]
        line = Text.assemble((f"{mark} ", style), host, (f"  {seconds:.1f} s", "dim"))
        for detail in details:
            line.append(f"\n    {detail}", style="dim")
        step[host] = line
        if not self._live:
            self._console.print(Text("  ").append_text(line))

    def note(self, text: str) -> None:
        """A line about the current step."""
        self._show_step()
        self._console.print(Text(f"  {text}"))

    def _show_step(self) -> dict[str, Text | str]:
        if self._current not in self._steps:
            self._steps[self._current] = {}
            self._began[self._current] = self._clock()
            if not self._live:
                self._console.print(Text(self._current))
        return self._steps[self._current]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tree = Tree("", hide_root=True)
        for title, hosts in self._steps.items():
            branch = tree.add(Text(title, style="bold"))
            for host, line in hosts.items():
                waited = self._clock() - self._began[title]
                text = Text(f"{host}  {waited:.0f} s  {line}") if isinstance(line, str) else None
                branch.add(Spinner("dots", text) if text else line)
        yield tree
