"""The plan screen of an edit: on a terminal of 80 columns, and in a pipe."""

from __future__ import annotations

import io

from rich.console import Console

from pdctl.plan.document import Details, plan_document
from pdctl.plan.estimate import estimate
from pdctl.plan.radius import radius
from pdctl.views.console import PIPE_WIDTH
from pdctl.views.plan import show_plan
from tests.plan.changes import Edit


def screen(
    done: Edit, *, columns: int | None = 80, diffs: bool = True, details: Details | None = None
) -> str:
    """`columns` None: a pipe."""
    file = io.StringIO()
    console = Console(
        file=file,
        force_terminal=columns is not None,
        width=columns or PIPE_WIDTH,
        color_system=None,
        highlight=False,
        soft_wrap=True,
    )
    show_plan(plan_document(done.plan, details or told(done)), console, diffs=diffs)
    return file.getvalue()


def told(done: Edit) -> Details:
    """As `pdctl diff` would tell it, with starts that took 12.5 s."""
    timings = {key: 12.5 for key in done.desired if key.id.startswith("unit:")}
    return Details(
        done.reasons,
        estimate(done.topology, done.plan, done.desired, timings),
        radius(done.topology, done.plan, done.observed),
        since="generation 7",
    )
