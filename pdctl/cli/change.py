"""`pdctl diff | render`: what would change, without changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdctl.cli.finish import Finish, timed
from pdctl.cli.load import folder_of, load_topology, warn
from pdctl.cli.options import CLUSTER, BundleDir, Json, Spec, Timing


def register(app: typer.Typer) -> None:
    app.command()(diff)
    app.command()(render)


def diff(
    path: Spec = CLUSTER,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 2 when something differs, 0 when nothing does.")
    ] = False,
    brief: Annotated[bool, typer.Option("--brief", help="Leave out the text of changed files.")] = False,
    timing: Timing = False,
    json: Json = False,
) -> None:
    """Show what `apply` would change, and what changed outside pdctl."""
    topology = load_topology(path)

    from pdctl.apply.look import look
    from pdctl.errors import ErrorGroup
    from pdctl.plan.document import plan_document
    from pdctl.views.console import out, print_json
    from pdctl.views.plan import show_plan

    seen = look(topology, folder_of(path))
    warn(seen.warnings)
    document = plan_document(seen.plan)
    if json:
        print_json(timed(document, timing))
    else:
        show_plan(document, out(), diffs=not brief)
    if seen.failures:
        raise ErrorGroup("some hosts could not be looked at", seen.failures)
    if exit_code and not seen.plan.empty:
        raise Finish(2)


def render(
    path: Spec = CLUSTER,
    out_dir: Annotated[
        Path, typer.Option("--out", help="Folder to write; must not exist or be empty.")
    ] = Path("rendered"),
    bundle: BundleDir = None,
    json: Json = False,
) -> None:
    """Write an Ansible project that brings the hosts to the same state without pdctl."""
    topology = load_topology(path)

    from pdctl.apply.project import write_project
    from pdctl.views.console import print_json

    written = write_project(
        topology, folder_of(path), out_dir, bundle, lambda line: typer.echo(line, err=True)
    )
    if json:
        print_json({"folder": str(out_dir), "files": written})
    else:
        typer.echo(f"Wrote {len(written)} files to {out_dir}; run `ansible-playbook apply.yml` there")
