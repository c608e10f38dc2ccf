"""request -> the host as asked, with the record kept around the work."""

from __future__ import annotations

import os

from ansible.module_utils.pdctl_apt import Apt
from ansible.module_utils.pdctl_delete import delete, doomed_ids, finish
from ansible.module_utils.pdctl_difference import Problem, difference, headline
from ansible.module_utils.pdctl_driver import refuse_torn
from ansible.module_utils.pdctl_effects import carry_out, due, effect_line, effect_of
from ansible.module_utils.pdctl_fabric import wait_fabric
from ansible.module_utils.pdctl_files import (
    clear_file,
    missing_parents,
    put_directory,
    put_file,
    put_user,
    render_environment,
)
from ansible.module_utils.pdctl_health import Unhealthy, journal, wait_healthy
from ansible.module_utils.pdctl_host_lock import host_lock
from ansible.module_utils.pdctl_install import brings_sources, foresee, install
from ansible.module_utils.pdctl_journal import journaled
from ansible.module_utils.pdctl_modules import Modules, check_peermem
from ansible.module_utils.pdctl_observe import observe_rows
from ansible.module_utils.pdctl_observe_files import secret_digest
from ansible.module_utils.pdctl_record import TREE, Record
from ansible.module_utils.pdctl_rows import Row, Rows, row_id, row_of
from ansible.module_utils.pdctl_units import (
    RELOAD,
    drop_in_lines,
    dropped_in,
    halt_units,
    is_stopped,
    put_units,
    unit_headline,
)
from ansible.module_utils.pdctl_venvs import PYTHONS, clear_venv, put_venvs
from ansible.module_utils.pdctl_weights import put_weights

Secrets = dict[str, dict[str, str]]  # values of variables, by path of their file
PUT = ("user", "directory", "file", "package", "venv", "weights")
ENDED = ("inactive", "failed", "activating/auto-restart")  # of a unit that has just been healthy
SOON = "ended soon after it had begun to serve"
NOT_YET = "was not yet healthy when another unit failed"
CLEAR = {"file": clear_file, "venv": clear_venv}


def converge(request: Row, secrets: Secrets, dry: bool, did: list[str]) -> None:
    """Idempotent: what differs is put right, what was touched is read again. `did` grows as the work goes.

    With `secrets` this is about the secret files alone, without them about all else.
    """
    with host_lock():
        if dry:
            foretell(Work(request, secrets, did))
            return
        with journaled(request, did):
            work = Work(request, secrets, did)
            perform(work, work.todo())


def foretell(work: Work) -> None:
    work.did += [work.headline(row) for row in work.todo()]
    work.did += [line for row in work.todo() for line in drop_in_lines(dropped_in(work.have(row)))]
    work.did += [effect_line([path]) for path in work.own_effects()] + work.modules.foretell()
    work.did += [f"stop {row['name']}" for row in work.halt]
    work.did += [f"delete {key.replace(':', ' ', 1)}" for key in work.doomed if key in work.seen]


class Work:
    """One call: what was asked, what was seen before, what was done so far."""

    def __init__(self, request: Row, secrets: Secrets, did: list[str]) -> None:
        self.request = request
        self.bundle = request["bundle"]
        self.cluster = request["cluster"]
        self.apt = Apt(request.get("apt"))
        self.did = did
        self.secrets = {path: render_environment(values) for path, values in secrets.items()}
        secret = bool(secrets)
        rows = [row for row in request.get("put") or () if bool(row.get("secret")) == secret]
        self.put = [self.with_digest(row) for row in rows]
        units = list(request.get("units") or ())
        self.record = Record(request["record"], self.cluster)
        self.doomed = doomed_ids(request, self.record)
        halt = [row_of(f"unit:{name}") for name in request.get("halt") or ()]
        self.asked = [*self.put, *units, *halt, *map(row_of, self.doomed)]
        self.seen = self.look(self.asked)
        self.halt = [row for row in halt if not is_stopped(self.have(row))]
        self.units = [self.with_restart(row) for row in units]
        self.effects = due(self.put, self.seen, self.record.pending)
        self.modules = Modules(self.put, self.seen, self.record.rows, self.record.pending)
        self.open = dict(self.record.pending)  # what an interrupted run was at
        self.reached = False  # the units: their files come before them
        self.served: set[str] = set()  # names of units that a health gate let through
        self.why: dict[str, str] = {}  # what kept units from it

    def with_digest(self, row: Row) -> Row:
        """The digest of a secret is that of the values handed over now."""
        secret = self.secrets.get(row.get("path", ""))
        return row if secret is None else dict(row, digest=secret_digest(secret, self.cluster))

    def with_restart(self, row: Row) -> Row:
        """A unit file that changed since systemd read it only has to be read again, unless somebody else has
        started the process meanwhile: nobody knows from which file."""
        before, now = self.record.rows.get(row_id(row)), self.have(row)
        stale = before and now and RELOAD in now["deviations"] and now["invocation"] != before["invocation"]
        return dict(row, restart=True) if stale else row

    def look(self, rows: list[Row]) -> Rows:
        errors: list[str] = []
        found = observe_rows(rows, self.cluster, errors, self.our_files())
        if errors:
            raise Problem(f"this host cannot be observed: {'; '.join(errors)}")
        return {row_id(row): row for row in found}

    def our_files(self) -> set[str]:
        return {row["path"] for row in [*self.put, *self.record.rows.values()] if row["kind"] == "file"}

    def have(self, row: Row) -> Row | None:
        return self.seen.get(row_id(row))

    def of_kind(self, kind: str) -> Rows:
        """{name: row as seen before the work}."""
        return {row["name"]: row for row in self.seen.values() if row["kind"] == kind}

    def todo(self) -> list[Row]:
        return [row for row in [*self.put, *self.units] if self.must_change(row)]

    def must_change(self, row: Row) -> bool:
        have = self.have(row)
        return have is None or bool(row.get("restart") or difference(row, have))

    def headline(self, row: Row) -> str:
        return (unit_headline if row["kind"] == "unit" else headline)(row, self.have(row))

    def own_effects(self) -> list[str]:
        """Files of this request that something has to follow."""
        mine = {row_id(row) for row in self.put}
        return [path for key, path in self.effects.items() if key in mine]

    def left_out(self) -> dict[str, str]:
        """Files whose effect is still to follow, and what the record says of them."""
        files = {key: f"{' '.join(effect_of(path))} has not followed" for key, path in self.effects.items()}
        return files | self.modules.owed()

    def unproven(self, after: Rows) -> dict[str, str]:
        """Units that no gate has let through, now or in an interrupted run before, and why."""
        known = {key: entry.get("why", "") for key, entry in self.open.items()}
        mine = map(row_id, self.units if self.reached else ())
        keys = [*(key for key in known if row_of(key)["kind"] == "unit"), *mine]
        found = {}
        for key in keys:
            name = row_of(key)["name"]
            ended = name in self.served and after.get(key, {}).get("active") in ENDED
            if ended or name not in self.served:
                found[key] = SOON if ended else self.why.get(name) or known.get(key, "")
        return found

    def done(self, *rows: Row) -> None:
        self.did += [self.headline(row) for row in rows]


def perform(work: Work, todo: list[Row]) -> None:
    """The record is written before the first change and, whatever happens, after the last."""
    record = work.record
    clear_leftovers(record)
    record.owe(work.request.get("owed") or {})
    if todo or work.halt:
        record.intend([*todo, *work.halt], work.seen, parents_of(todo, work))
    try:
        halt(work)
        put([row for row in todo if row["kind"] != "unit"], work)
        put_and_wait([row for row in todo if row["kind"] == "unit"], work)
        if work.doomed:
            delete(work.doomed, work.seen, record, work.did)
    except Unhealthy as error:
        work.why = {**{row["name"]: NOT_YET for row in work.units}, **error.why}
        raise
    finally:
        after = settle(work, todo)
    check(todo, after)
    if record.is_finished(work.request):
        work.did += finish(record)


def clear_leftovers(record: Record) -> None:
    """Half-made things of an interrupted run have no row to be removed by."""
    for key in record.pending:
        kind, name = key.split(":", 1)
        if kind in CLEAR:
            CLEAR[kind](name)


def halt(work: Work) -> None:
    names = [row["name"] for row in work.halt]
    if names:
        halt_units(names)
        work.did += [f"stop {name}: others need what it holds" for name in names]


def settle(work: Work, todo: list[Row]) -> Rows:
    """Read again what was touched, also by an interrupted run before this one, and record it."""
    record = work.record
    known = record.all()
    keys = [key for key in [*work.doomed, *record.pending] if key in known]
    again = [*todo, *(dict(row_of(key), secret=known[key].get("secret", False)) for key in keys)]
    after = work.look(again)
    touched = {row_id(row) for row in again}
    before = {key: row for key, row in work.seen.items() if key not in touched and key not in work.doomed}
    record.settle(
        {row_id(row) for row in work.asked} - set(work.doomed) | touched,
        {**before, **after},
        work.request.get("meta"),
        work.doomed,
        {**work.unproven(after), **work.left_out()},
    )
    return after


def put(todo: list[Row], work: Work) -> None:
    """Users before what they own, apt's sources and pins before packages, environments last."""
    kinds: dict[str, list[Row]] = {kind: [row for row in todo if row["kind"] == kind] for kind in PUT}
    packages = work.of_kind("package")
    foresee(kinds["package"], kinds["file"], packages, work.apt)
    for row in kinds["user"]:
        put_user(row, work.have(row))
        work.done(row)
    for row in kinds["directory"]:
        put_directory(row)
        work.done(row)
    for row in kinds["file"]:
        put_file(row, work.bundle, work.secrets.get(row["path"]))
        work.done(row)
    follow(work)
    if kinds["package"]:
        if brings_sources(kinds["file"]):
            work.apt.update()
        try:
            install(kinds["package"], packages, work.request, work.record, work.apt)
        finally:
            work.did += work.apt.did
        work.done(*kinds["package"])
    work.did += work.modules.bring_about()
    if kinds["venv"]:
        put_venvs(kinds["venv"], work.bundle)
        work.done(*kinds["venv"])
    for row in kinds["weights"]:
        said = put_weights(row)
        work.done(row)
        work.did += [said] if said else []


def follow(work: Work) -> None:
    """What the changed files ask for; until it is done the record says so."""
    paths = work.own_effects()
    work.did += carry_out(paths)
    work.effects = {key: path for key, path in work.effects.items() if path not in paths}


def put_and_wait(todo: list[Row], work: Work) -> None:
    have = work.of_kind("unit")
    touched: set[str] = set()
    work.reached = True
    if todo:
        refuse_torn(todo, work.record)
        check_peermem(work.record.rows)
        wait_fabric(todo)
        touched, removed = put_units(todo, have, work.our_files())
        work.done(*todo)
        work.did += drop_in_lines(removed)
    invocations = {name: row["invocation"] for name, row in have.items()}
    work.record.timings.update(wait_healthy(work.units, invocations, touched, work.served))


def check(touched: list[Row], after: Rows) -> None:
    """Fixed is what is seen to be fixed."""
    pairs = [(row, after.get(row_id(row))) for row in touched]
    ended = {row["name"]: have["active"] for row, have in pairs if have and have.get("active") in ENDED}
    if ended:
        words = [f"{name}: it ended soon after it had begun to serve ({now})" for name, now in ended.items()]
        raise Unhealthy("; ".join(words), {name: journal(name) for name in ended}, {})
    bad = [headline(row, have) for row, have in pairs if have is None or difference(row, have)]
    if bad:
        raise Problem("still different after the work: " + "; ".join(bad))


def parents_of(todo: list[Row], work: Work) -> list[str]:
    """Folders that will be made by the way, and the place where uv keeps an interpreter it has to fetch."""
    asked = {row["path"] for row in work.put if row["kind"] == "directory"}
    paths = [parent for row in todo if "path" in row for parent in missing_parents(row["path"])]
    extras = [path for path in dict.fromkeys(paths) if path not in asked]
    fetching = any(row["kind"] == "venv" and not row.get("wheels") for row in todo)
    pythons = os.path.join(os.path.dirname(work.bundle), PYTHONS)
    return extras + ([TREE + pythons] if fetching and not os.path.exists(pythons) else [])
