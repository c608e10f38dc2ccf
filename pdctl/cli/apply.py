"""`pdctl apply | destroy`: change the hosts."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli.ending import completing, confirm, judged, not_looked_at, proved, told
from pdctl.cli.finish import timed
from pdctl.cli.load import folder_of, load_reading, load_topology, tell, text_of, warn
from pdctl.cli.options import CLUSTER, AllowReboot, BundleDir, Json, Spec, SpecOrPlan, Timing, Yes
from pdctl.cli.planning import (
    OfInstance,
    OfLayer,
    OfRole,
    OnHost,
    kept_plan,
    planned,
    resting,
    targets_of,
)

if TYPE_CHECKING:
    from rich.console import Console

    from pdctl.apply.look import Look
    from pdctl.apply.making import About
    from pdctl.hosts.sessions import Sessions


def register(app: typer.Typer) -> None:
    app.command()(apply)
    app.command()(destroy)


def apply(
    path: SpecOrPlan = CLUSTER,
    yes: Yes = False,
    bundle: BundleDir = None,
    allow_downgrades: Annotated[
        bool, typer.Option("--allow-downgrades", help="Let packages become older where the spec says so.")
    ] = False,
    allow_reboot: AllowReboot = False,
    verify: Annotated[bool, typer.Option(help="Send a real request through the proxy afterwards.")] = True,
    host: OnHost = [],  # noqa: B006  typer copies it
    role: OfRole = [],  # noqa: B006
    instance: OfInstance = [],  # noqa: B006
    layer: OfLayer = [],  # noqa: B006
    timing: Timing = False,
    json: Json = False,
) -> None:
    """Bring the hosts to what the spec says, or carry out a kept plan; does nothing when they are there."""
    targets = targets_of(host, role, instance, layer)
    saved = kept_plan(path, targets)
    if saved:
        path, targets = Path(saved.spec), saved.targets
    topology, reading = load_reading(path)

    from pdctl.apply.consent import allowing_reboots, waiting_reboots
    from pdctl.apply.making import About
    from pdctl.apply.plan_file import refuse_moved
    from pdctl.apply.preflight import preflight
    from pdctl.hosts.local_lock import local_lock
    from pdctl.hosts.sessions import sessions_for
    from pdctl.parts.cluster_lock import kept_text
    from pdctl.views.console import err, out, print_json
    from pdctl.views.plan import show_plan

    about = About(text_of(path), lock=kept_text(topology.lock))
    topology = allowing_reboots(topology, allow_reboot)
    with local_lock(topology.cluster), sessions_for(topology.spec, folder_of(path)) as sessions:
        since = time.time()
        found = planned(topology, reading, folder_of(path), targets, sessions)
        seen = replace(found.seen, downgrades=allow_downgrades)
        health = preflight(seen, reading.text, since, time.time())
        warn(seen.warnings)
        if saved:
            refuse_moved(saved, found.document, seen)
        if not json:
            show_plan(found.document, out(), diffs=False)
        carried = {"format": "pdctl-apply/1", "plan": found.document, "did": {}, "proof": None}
        tell(health.warnings)
        with completing(carried, json):
            health.refuse(topology.cluster)
            carried["did"] = _carry_out(seen, bundle, yes, err(), about, sessions)
            warn(waiting_reboots(seen))
            proof = proved(seen, err()) if verify and _provable(seen) else None
    if json:
        print_json(timed(carried | {"proof": told(proof)}, timing))
    judged(seen, proof)


def _provable(seen: Look) -> bool:
    """All of it has to run for a proof; what is missing outside the targets is no error of this apply."""
    from pdctl.plan.rollout import some

    missing = resting(seen)
    if seen.plan.reboots.resting:
        warn(["nothing was proven: engines wait for a reboot of their hosts"])
        return False
    if seen.beyond:
        warn(f"{line}; nothing was proven" for line in not_looked_at(seen))
    elif missing and not seen.failures:
        runs = "does not run" if len(missing) == 1 else "do not run"
        warn([f"nothing was proven: {some(missing)} of the spec {runs}, outside the targets"])
    return not missing and not seen.failures


def destroy(path: Spec = CLUSTER, yes: Yes = False, json: Json = False) -> None:
    """Remove exactly what pdctl recorded on the hosts."""
    topology = load_topology(path)

    from pdctl.apply.account import account
    from pdctl.apply.generations import numbers
    from pdctl.apply.look import look_for
    from pdctl.apply.quiet import changed_hosts, when_quiet
    from pdctl.cli.carry import say, take_away
    from pdctl.hosts.local_lock import local_lock
    from pdctl.hosts.sessions import sessions_for
    from pdctl.plan.document import plan_document
    from pdctl.views.console import err, out, print_json
    from pdctl.views.plan import show_plan

    with local_lock(topology.cluster), sessions_for(topology.spec, folder_of(path)) as sessions:
        seen = when_quiet(
            lambda: look_for(topology, folder_of(path), {}, sessions=sessions),
            lambda seen: seen.seen.kept,
            say,
            changed_hosts,
        )
        warn(seen.warnings)
        document = plan_document(seen.plan, account(seen))
        if not json:
            show_plan(document, out(), diffs=False)
        carried = {"format": "pdctl-destroy/1", "plan": document, "did": {}}
        if not seen.plan.empty or numbers(seen.seen.kept):  # an apply that failed at once leaves its history
            what = "the history" if seen.plan.empty else "all"
            confirm(f"Remove {what} of `{topology.cluster}` from the hosts?", yes)
            with completing(carried, json):
                carried["did"] = take_away(seen, err(), sessions)
    if json:
        print_json(carried)
    elif not seen.plan.empty:
        count = len(carried["did"])
        hosts = "1 host" if count == 1 else f"{count} hosts"
        out().print(f"`{topology.cluster}` is gone from {hosts}", markup=False)
    judged(seen, None)


def _carry_out(
    seen: Look, bundle: Path | None, yes: bool, console: Console, about: About, sessions: Sessions
) -> dict[str, Any]:
    from pdctl.apply.consent import refuse_downgrades
    from pdctl.apply.generations import is_whole
    from pdctl.apply.lock import is_live
    from pdctl.apply.making import close_off
    from pdctl.cli.carry import carry_out, say

    refuse_downgrades(seen, allowed=seen.downgrades)
    if seen.plan.steps or seen.plan.owed or seen.plan.restarts:
        confirm("Apply this plan?", yes)
        return carry_out(seen, bundle, console, about, sessions)
    whole = not seen.selection and not seen.failures and seen.plan.empty
    if whole and not is_whole(seen.seen.kept) and not is_live(seen.seen.kept):
        close_off(sessions, seen, about, say)
    return {}
