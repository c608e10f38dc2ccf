"""What a person sees while hosts are worked on, on a terminal and in a pipe."""

from __future__ import annotations

import io

from rich.console import Console

from pdctl.views.progress import Progress


def told(terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, color_system=None, highlight=False)
    with Progress(console, clock=iter(range(100)).__next__) as progress:
        progress.step("Start servers")
        progress.step("Start decoders")
        progress.begin("h1", "Start or restart")
        progress.begin("h2", "Start or restart")
        progress.done("h1", "ok", ["start a.service: it was inactive"])
        progress.done("h2", "failed", ["[/x] is not markup"])
        progress.begin("h1", "Say why")
        progress.skipped("h1")
    return out.getvalue()


def test_a_pipe_gets_plain_lines_and_no_empty_steps() -> None:
    text = told(terminal=False)
    assert text.startswith("Start decoders\n  ✓ h1  ") and "Start servers" not in text
    assert "    start a.service: it was inactive\n" in text
    assert "✗ h2" in text and "[/x] is not markup" in text
    assert "\x1b" not in text


def test_a_terminal_gets_a_tree_whose_last_frame_shows_every_host_ended() -> None:
    last = told(terminal=True).rsplit("Start decoders", 1)[1]
    assert "✓ h1" in last and "✗ h2" in last and "Say why" not in last
