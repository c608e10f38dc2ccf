"""What pdctl put on this host: intentions before the work, observations after it, on disk at every moment."""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Collection, Mapping

from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_files import write_file
from ansible.module_utils.pdctl_generations import forget_all
from ansible.module_utils.pdctl_namespace import UNIT_FOLDER, is_own
from ansible.module_utils.pdctl_recorded import META, VERSION, read_record
from ansible.module_utils.pdctl_rows import Row, Rows, row_id

PACKAGE, TREE = "package:", "tree:"  # what an extra is when it is no path of a single file or folder


class Record:
    """One cluster's record.

    `resources` are observed rows with `created`: whether pdctl made the thing. `pending` are things being
    worked on, and units that no health gate has let through since then, with `why` where that is known.
    `extras` are paths and packages made by the way (parents of a file, dependencies of a package), which no
    row stands for; they go when the record is empty. `owed` are restarts that the controller may not come to
    order: of one run of a unit, so that an entry is void once another run is seen. `timings` are the seconds
    that the last start of each unit took until it was healthy, and of the last reboot. `reboot` is one that
    was begun, in which boot and for what, and that this host has not yet been seen to have got through.
    """

    def __init__(self, path: str, cluster: str) -> None:
        errors: list[str] = []
        found = read_record(path, errors)
        if found and found["version"] > VERSION:
            errors.append(f"{path}: a newer pdctl wrote it (version {found['version']}); upgrade pdctl")
        if errors:
            raise Problem(f"the record cannot be used: {errors[0]}")
        self.path = path
        self.cluster = cluster
        self.before = found
        found = found or {}
        self.rows = {row_id(row): row for row in found.get("resources", [])}
        self.pending = {entry["id"]: entry for entry in found.get("pending", [])}
        self.extras = list(found.get("extras", []))
        self.owed = dict(found.get("owed", {}))
        self.timings = dict(found.get("timings", {}))
        self.reboot = found.get("reboot")
        self.meta = {name: found.get(name, "") for name in META}

    def made(self, key: str, exists: bool) -> bool:
        """Whether pdctl made `key`, or will have made it; what lies in its own places it has made, recorded
        or not (a record may be lost)."""
        known = self.all()
        unit_file = "file:" + UNIT_FOLDER + key.split(":", 1)[1] if key.startswith("unit:") else ""
        for entry in (known.get(key), known.get(unit_file)):
            if entry:
                return bool(entry["created"])
        return not exists or self.is_extra(key) or is_own(key, self.cluster)

    def is_extra(self, key: str) -> bool:
        return key in self.extras or key.split(":", 1)[1] in self.extras

    def all(self) -> Rows:
        return {**self.pending, **self.rows}

    def intend(self, rows: list[Row], existing: Rows, extras: list[str]) -> None:
        """Before the work: whatever happens next, the record knows what may be there because of us."""
        for row in rows:
            key = row_id(row)
            entry = {"id": key, "created": self.made(key, key in existing), "secret": bool(row.get("secret"))}
            self.pending[key] = entry
        self.extras += [extra for extra in extras if extra not in self.extras]
        self.write()

    def owe(self, debts: Rows) -> None:
        """Restarts that are to come, on disk before the work begins."""
        before = dict(self.owed)
        for key, debt in debts.items():
            had = self.owed.get(key, debt)
            same = had if had["invocation"] == debt["invocation"] else debt
            self.owed[key] = dict(
                debt, **{name: sorted({*same[name], *debt[name]}) for name in ("causes", "peers")}
            )
        if self.owed != before:
            self.write()

    def begin_reboot(self, boot: str, why: list[str]) -> None:
        """On disk before the first thing is changed for it."""
        self.reboot = {"boot": boot, "why": why}
        self.write()

    def end_reboot(self, seconds: float) -> None:
        self.reboot = None
        if seconds:
            self.timings["reboot"] = round(seconds, 1)
        self.write()

    def remember_packages(self, names: list[str]) -> None:
        """They are about to come along with others."""
        self.extras += [PACKAGE + name for name in names if PACKAGE + name not in self.extras]
        self.write()

    def forget_packages(self, known: Collection[str]) -> None:
        """Those that did not come after all."""
        gone = {
            extra for extra in self.extras if extra.startswith(PACKAGE) and extra[len(PACKAGE) :] not in known
        }
        self.extras = [extra for extra in self.extras if extra not in gone]

    def settle(
        self,
        asked: set[str],
        observed: Rows,
        meta: Row | None,
        doomed: Collection[str] = (),
        unproven: Mapping[str, str] | None = None,
    ) -> None:
        """After the work: what was asked about, and what an interrupted run was at, is as observed.

        What pdctl had made, still wants and does not find stays pending: behind an unmounted disk it may only
        be hidden, and would be nobody's when it shows again. So do units of `unproven` (id -> why) that are
        there: as their files and processes are, nothing else would tell that they were never seen healthy.
        """
        hidden = {
            key: {"id": key, "created": True, "secret": bool(self.rows[key].get("secret"))}
            for key in asked - observed.keys() - set(doomed)
            if key in self.rows and self.rows[key]["created"]
        }
        for key in asked:
            if key in observed:
                self.rows[key] = dict(observed[key], created=self.made(key, True))
            else:
                self.rows.pop(key, None)
                self.timings.pop(key.split(":", 1)[1], None)
            if self.owed.get(key, {}).get("invocation") != observed.get(key, {}).get("invocation"):
                self.owed.pop(key, None)
        open_gates = {
            key: self.unproven_entry(key, why)
            for key, why in (unproven or {}).items()
            if key in observed and key not in doomed
        }
        rest = {key: entry for key, entry in self.pending.items() if key not in asked}
        self.pending = {**rest, **hidden, **open_gates}
        self.extras = [extra for extra in self.extras if not self.is_recorded(extra)]
        self.meta = {name: (meta or {}).get(name, self.meta[name]) for name in META}
        if not self.is_unchanged():
            self.write()

    def unproven_entry(self, key: str, why: str) -> Row:
        entry = {"id": key, "created": self.made(key, True), "secret": False}
        return dict(entry, why=why) if why else entry

    def is_recorded(self, extra: str) -> bool:
        return extra in self.rows or any(f"{kind}:{extra}" in self.rows for kind in ("directory", "file"))

    def is_finished(self, request: Row) -> bool:
        """True when this request took away the last thing."""
        deleting = bool(request.get("delete") or request.get("everything"))
        return deleting and self.is_empty() and self.before is not None

    def forget(self, key: str) -> None:
        for kept in (self.rows, self.pending, self.owed):
            kept.pop(key, None)
        self.timings.pop(key.split(":", 1)[1], None)

    def is_empty(self) -> bool:
        return not self.rows and not self.pending

    def is_unchanged(self) -> bool:
        """True when only the time and the user of the last apply would differ."""
        now = self.as_json()
        if self.before is None:
            return self.is_empty() and not self.extras
        names = (now.keys() | self.before.keys()) - {"applied_at", "by"}
        return all(now.get(name) == self.before.get(name) for name in names)

    def as_json(self) -> Row:
        return {
            "version": VERSION,
            "cluster": self.cluster,
            **self.meta,
            "resources": [self.rows[key] for key in sorted(self.rows)],
            "pending": [self.pending[key] for key in sorted(self.pending)],
            "extras": self.extras,
            **({"owed": self.owed} if self.owed else {}),
            **({"timings": self.timings} if self.timings else {}),
            **({"reboot": self.reboot} if self.reboot else {}),
        }

    def write(self) -> None:
        folder = os.path.dirname(self.path)
        os.makedirs(os.path.dirname(folder), 0o755, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        self.before = self.as_json()
        text = json.dumps(self.before, indent=1, sort_keys=True) + "\n"
        write_file(
            {"path": self.path, "owner": "root", "group": "root", "mode": "0600", "secret": True},
            [text.encode()],
        )

    def remove(self) -> None:
        """The file, what is kept of its history, and their folders as far as they are empty."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        forget_all(os.path.dirname(self.path))
        for folder in (os.path.dirname(self.path), os.path.dirname(os.path.dirname(self.path))):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def other_records(record: Record) -> list[Record]:
    """The records of other clusters on this host."""
    pattern = os.path.join(os.path.dirname(os.path.dirname(record.path)), "*", os.path.basename(record.path))
    return [
        Record(path, os.path.basename(os.path.dirname(path)))
        for path in sorted(glob.glob(pattern))
        if path != record.path
    ]
