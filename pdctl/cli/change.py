"""`pdctl diff | render`: what would change, without changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdctl.cli.ending import not_looked_at
from pdctl.cli.finish import Finish, timed
from pdctl.cli.load import folder_of, load_reading, warn
from pdctl.cli.options import CLUSTER, AllowReboot, BundleDir, Json, Spec, Timing
from pdctl.cli.planning import OfInstance, OfLayer, OfRole, OnHost, Planned, planned, targets_of
from pdctl.errors import ApplyError, ErrorGroup


def register(app: typer.Typer) -> None:
    app.command()(diff)
    app.command()(render)


def diff(
    path: Spec = CLUSTER,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 2 when something differs, 0 when nothing does.")
    ] = False,
    brief: Annotated[bool, typer.Option("--brief", help="Leave out the text of changed files.")] = False,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Keep the plan in this file, for `pdctl apply FILE`.")
    ] = None,
    drift_only: Annotated[
        bool,
        typer.Option("--drift-only", help="Show only what changed outside pdctl and what is not its own."),
    ] = False,
    host: OnHost = [],  # noqa: B006  typer copies it
    role: OfRole = [],  # noqa: B006
    instance: OfInstance = [],  # noqa: B006
    layer: OfLayer = [],  # noqa: B006
    allow_reboot: AllowReboot = False,
    timing: Timing = False,
    json: Json = False,
) -> None:
    """Show what `apply` would change, and what changed outside pdctl."""
    if drift_only and out_file:
        raise ApplyError("drift alone is no plan to keep", hint="leave out --drift-only or --out")
    topology, reading = load_reading(path)

    from pdctl.apply.consent import allowing_reboots
    from pdctl.plan.document import drift_document
    from pdctl.views.console import out, print_json
    from pdctl.views.plan import show_drift, show_plan

    targets = targets_of(host, role, instance, layer)
    topology = allowing_reboots(topology, allow_reboot)
    found = planned(topology, reading, folder_of(path), targets, drift_only=drift_only)
    warn(found.seen.warnings)
    document = drift_document(found.seen.plan, found.details) if drift_only else found.document
    if json:
        print_json(timed(document, timing))
    elif drift_only:
        show_drift(document, out())
    else:
        show_plan(document, out(), diffs=not brief)
    if out_file:
        _keep(out_file, found, path)
    if found.seen.concerning:
        raise ErrorGroup("some hosts could not be looked at", found.seen.concerning)
    warn(not_looked_at(found.seen))
    if exit_code and not document["empty"]:
        raise Finish(2)


def _keep(out_file: Path, found: Planned, path: Path) -> None:
    from pdctl.apply.plan_file import write_plan

    write_plan(out_file, found.document, found.seen, path)
    typer.echo(f"Wrote {out_file}; `pdctl apply {out_file}` carries out exactly this", err=True)


def render(
    path: Spec = CLUSTER,
    out_dir: Annotated[
        Path, typer.Option("--out", help="Folder to write; must not exist or be empty.")
    ] = Path("rendered"),
    bundle: BundleDir = None,
    json: Json = False,
) -> None:
    """Write an Ansible project that brings the hosts to the same state without pdctl."""
    topology, _ = load_reading(path)  # a lock that does not fit is an error: a project outlives its spec

    from pdctl.apply.project import write_project
    from pdctl.views.console import print_json

    written = write_project(
        topology, folder_of(path), out_dir, bundle, lambda line: typer.echo(line, err=True)
    )
    if json:
        print_json({"folder": str(out_dir), "files": written})
    else:
        typer.echo(f"Wrote {len(written)} files to {out_dir}; run `ansible-playbook apply.yml` there")
