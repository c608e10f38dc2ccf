"""`pdctl history | rollback | unlock`: what was applied, the way back, and a lock that somebody left."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli.ending import completing, confirm, judged, proved, told
from pdctl.cli.finish import timed
from pdctl.cli.load import folder_of, load_topology, text_of, warn
from pdctl.cli.options import CLUSTER, AllowReboot, Json, Spec, Timing, Yes
from pdctl.errors import SpecError

if TYPE_CHECKING:
    from pdctl.apply.rollback import Back
    from pdctl.hosts.observation import LockOwner
    from pdctl.hosts.sessions import Sessions


def register(app: typer.Typer) -> None:
    app.command()(history)
    app.command()(rollback)
    app.command()(unlock)


def history(
    path: Spec = CLUSTER,
    spec: Annotated[
        int | None, typer.Option(help="Print the cluster.yaml of this generation instead.", min=1)
    ] = None,
    lock: Annotated[int | None, typer.Option(help="Print its cluster.lock instead.", min=1)] = None,
    json: Json = False,
) -> None:
    """Show every apply that the hosts remember: when, by whom, what it changed, how it ended."""
    if spec and lock:
        raise SpecError("--spec and --lock print one file each", hint="ask for one after the other")
    topology = load_topology(path)

    from pdctl.apply.generations import broken_lines, bygone_lines
    from pdctl.apply.history import history_document, lock_of, past, spec_of
    from pdctl.apply.lock import lock_lines
    from pdctl.errors import ErrorGroup
    from pdctl.hosts.sessions import sessions_for
    from pdctl.views.console import out, print_json
    from pdctl.views.history import show_history

    with sessions_for(topology.spec, folder_of(path)) as sessions:
        seen = past(sessions, topology.cluster)
        texts = {"spec": spec_of(sessions, seen, spec)} if spec else {}
        texts |= {"lock": lock_of(sessions, seen, lock)} if lock else {}
    if texts:
        print_json({"number": spec or lock, **texts}) if json else sys.stdout.write("".join(texts.values()))
        return
    warn([*lock_lines(seen.kept), *broken_lines(seen.kept), *bygone_lines(seen.kept)])
    document = history_document(seen)
    if json:
        print_json(document)
    else:
        show_history(document, out())
    if seen.failures:
        raise ErrorGroup("some hosts could not be asked", list(seen.failures.values()))


def rollback(
    generation: Annotated[
        str | None,
        typer.Argument(
            help="Its number in `pdctl history`; default: the one before what runs.", show_default=False
        ),
    ] = None,
    path: Spec = CLUSTER,
    yes: Yes = False,
    allow_downgrades: Annotated[
        bool, typer.Option("--allow-downgrades", help="Let packages go back to the versions of then.")
    ] = False,
    allow_reboot: AllowReboot = False,
    verify: Annotated[bool, typer.Option(help="Send a real request through the proxy afterwards.")] = True,
    timing: Timing = False,
    json: Json = False,
) -> None:
    """Bring the hosts back to an earlier generation. Nothing is installed, unless packages may go back."""
    number, path = _number(generation, path)
    topology = load_topology(path)

    from pdctl.apply.account import account
    from pdctl.apply.consent import allowing_reboots, waiting_reboots
    from pdctl.apply.history import past, target, told_of
    from pdctl.apply.quiet import when_quiet
    from pdctl.apply.rollback import look_back
    from pdctl.cli.carry import say
    from pdctl.hosts.local_lock import local_lock
    from pdctl.hosts.sessions import sessions_for
    from pdctl.plan.document import plan_document
    from pdctl.views.console import err, out, print_json
    from pdctl.views.plan import show_plan

    folder = folder_of(path)
    with local_lock(topology.cluster), sessions_for(topology.spec, folder) as sessions:
        seen = when_quiet(lambda: past(sessions, topology.cluster), lambda seen: seen.kept, say)
        topology = allowing_reboots(topology, allow_reboot)
        wanted = target(seen, number)
        back = look_back(topology, folder, sessions, seen, wanted, downgrades=allow_downgrades)
        warn(back.look.warnings)
        goal = f"generation {back.number}"
        document = plan_document(back.look.plan, replace(account(back.look), goal=goal))
        if not json:
            out().print(f"Back to {told_of(seen, back.number)}", markup=False, highlight=False)
            show_plan(document, out(), diffs=False)
        carried = {"format": "pdctl-rollback/1", "to": back.number, "plan": document, "did": {}}
        with completing(carried, json):
            carried["did"] = _carried_back(back, yes, sessions)
            warn(waiting_reboots(back.look))
            provable = not back.look.failures and not back.look.plan.reboots.resting
            proof = proved(back.look, err()) if verify and provable else None
    if json:
        print_json(timed(carried | {"proof": told(proof)}, timing))
    if back.spec != text_of(path):
        # Into another file: the shell would empty the spec itself before pdctl reads it.
        name = f"generation-{back.number}"
        how = f"pdctl history --spec {back.number} {path} > {name}.yaml"
        how += f" && pdctl history --lock {back.number} {path} > {name}.lock" if back.lock else ""
        warn(
            [f"{path} still asks for something else, and the next apply goes there; its text of then: {how}"]
        )
    judged(back.look, proof)


def unlock(path: Spec = CLUSTER, yes: Yes = False, json: Json = False) -> None:
    """Show who holds the lock of the hosts, and remove it if you say so."""
    topology = load_topology(path)

    from pdctl.apply.history import past
    from pdctl.apply.lock import alive, break_locks, lock_lines
    from pdctl.errors import ErrorGroup
    from pdctl.hosts.sessions import sessions_for
    from pdctl.views.console import err, out, print_json

    with sessions_for(topology.spec, folder_of(path)) as sessions:
        seen = past(sessions, topology.cluster)
        owners = {host: kept.lock for host, kept in seen.kept.items() if kept.lock}
        for line in lock_lines(seen.kept):
            err().print(line, markup=False)
        for line in alive(owners.values()):
            err().print(f"careful: {line}", markup=False)
        if owners:
            confirm("Remove the lock? Whoever holds it will change nothing more.", yes)
            break_locks(sessions, topology.cluster, owners)
    if json:
        print_json({"unlocked": {host: _owner(owner) for host, owner in owners.items()}})
    elif owners:
        out().print(f"unlocked: {', '.join(owners)}", markup=False)
    else:
        out().print(f"nobody holds the lock of `{topology.cluster}`", markup=False)
    if seen.failures:
        raise ErrorGroup("some hosts could not be asked", list(seen.failures.values()))


def _number(generation: str | None, path: Path) -> tuple[int | None, Path]:
    """`rollback 3`, `rollback spec.yaml`, `rollback 3 spec.yaml`."""
    if generation is None or generation.isdecimal():
        return (int(generation) if generation else None), path
    if path != CLUSTER:
        raise SpecError(f"`{generation}` is not a generation", hint="its number in `pdctl history`")
    return None, Path(generation)


def _carried_back(back: Back, yes: bool, sessions: Sessions) -> dict[str, Any]:
    from pdctl.apply.generations import is_whole
    from pdctl.apply.lock import is_live
    from pdctl.apply.making import About, close_off
    from pdctl.cli.carry import carry_out, say
    from pdctl.views.console import err

    about = About(back.spec, back.number, back.lock)
    plan = back.look.plan
    if plan.steps or plan.owed or plan.restarts:
        confirm(f"Roll back to generation {back.number}?", yes)
        return carry_out(back.look, None, err(), about, sessions)
    found = back.look.seen.kept
    if not back.look.failures and not is_whole(found) and not is_live(found):
        close_off(sessions, back.look, about, say)
    return {}


def _owner(owner: LockOwner) -> dict[str, Any]:
    return {"by": owner.by, "command": owner.command, "age_s": round(owner.age_s)}
