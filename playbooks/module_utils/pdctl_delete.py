"""Rows or ids that must go -> gone, except what was there before pdctl or another cluster still needs."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd

from ansible.module_utils.pdctl_effects import carry_out, effect_of
from ansible.module_utils.pdctl_files import remove_file, remove_tree, run
from ansible.module_utils.pdctl_namespace import UNIT_FOLDER
from ansible.module_utils.pdctl_packages import purge_packages
from ansible.module_utils.pdctl_receive import clear_sent
from ansible.module_utils.pdctl_record import PACKAGE, TREE, Record, other_records
from ansible.module_utils.pdctl_rows import Row, Rows, row_id, row_of
from ansible.module_utils.pdctl_units import drop_in_lines, dropped_in, remove_units
from ansible.module_utils.pdctl_venvs import remove_venv
from ansible.module_utils.pdctl_weights import forget_check, remove_weights

ORDER = ("unit", "file", "weights", "venv", "package", "user", "directory")
WEIGHTS = "weights:"
LEFT = {
    errno.ENOTEMPTY: "it is not empty",
    errno.EEXIST: "it is not empty",
    errno.EBUSY: "it is a mount point",
}


def doomed_ids(request: Row, record: Record) -> list[str]:
    """Ids to delete, in the order of deletion."""
    asked = [
        item if isinstance(item, str) else item.get("id") or row_id(item)
        for item in request.get("delete") or ()
    ]
    if request.get("everything"):
        asked += [*record.rows, *record.pending]
    rank = {kind: number for number, kind in enumerate(ORDER)}
    depth = {key: key.count("/") if key.startswith("directory:") else 0 for key in asked}
    return sorted(set(asked), key=lambda key: (rank[row_of(key)["kind"]], -depth[key], key))


def delete(keys: list[str], existing: Rows, record: Record, did: list[str]) -> None:
    """Things of others are only dropped from the record. `did` grows as the work goes."""
    others = other_records(record)
    mine = []
    for key in keys:
        heirs = [other for other in others if key in other.rows]
        if heirs:
            hand_over(key, record, heirs[0])
        if record.made(key, True) and not heirs:
            mine.append(key)
        elif key in record.rows:
            reason = "another cluster uses it" if heirs else "it was there before pdctl"
            did.append(f"leave {_words(key)}: {reason}")
            if key.startswith(WEIGHTS) and not heirs:
                forget_check(key[len(WEIGHTS) :])
    for kind in ORDER:
        some = [key for key in mine if row_of(key)["kind"] == kind]
        if some:
            left = remove(kind, [key.split(":", 1)[1] for key in some])
            did += [f"delete {_words(key)}" for key in some if key in existing and key not in left]
            did += [line for key in some for line in drop_in_lines(dropped_in(existing.get(key)))]
            did += [f"leave {_words(key)}: {left[key]}" for key in some if key in left]
    for key in keys:
        record.forget(key)


def remove(kind: str, names: list[str]) -> dict[str, str]:
    """What is already gone is fine, and leftovers beside it go too. Returns {id: why it was left}."""
    if kind == "unit":
        remove_units(names)
    elif kind == "file":
        remove_files(names)
    elif kind == "venv":
        for path in names:
            remove_venv(path)
    elif kind == "weights":
        for path in names:
            remove_weights(path)
    elif kind == "package":
        return {PACKAGE + name: "other packages need it" for name in purge_packages(names)}
    elif kind == "user":
        for name in names:
            remove_user(name)
    else:
        return remove_directories(names)
    return {}


def remove_files(paths: list[str]) -> None:
    for path in paths:
        remove_file(path)
    carry_out(path for path in paths if effect_of(path))
    if any(path.startswith(UNIT_FOLDER) for path in paths):
        run(["systemctl", "daemon-reload"], "read the unit files again")


def remove_user(name: str) -> None:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return
    run(["userdel", name], f"user {name}")


def remove_directories(paths: list[str]) -> dict[str, str]:
    left = {}
    for path in paths:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in LEFT:
                raise
            left[f"directory:{path}"] = LEFT[error.errno]
    return left


def finish(record: Record) -> list[str]:
    """Nothing is recorded any more: what was made by the way goes, or passes to another cluster."""
    heirs = other_records(record)
    extras, record.extras = record.extras, []
    if heirs:
        heirs[0].extras += [extra for extra in extras if extra not in heirs[0].extras]
        heirs[0].write()
    else:
        remove_extras(extras)
    clear_sent(record.cluster)
    record.remove()
    return ["delete record"]


def remove_extras(extras: list[str]) -> None:
    purge_packages([extra[len(PACKAGE) :] for extra in extras if extra.startswith(PACKAGE)])
    for extra in extras:
        if extra.startswith(TREE):
            remove_tree(extra[len(TREE) :])
    for path in sorted(
        (extra for extra in extras if extra.startswith("/")), key=lambda path: -path.count("/")
    ):
        if os.path.isdir(path) and not os.path.islink(path):
            with contextlib.suppress(OSError):
                os.rmdir(path)
        else:
            remove_file(path)


def hand_over(key: str, record: Record, heir: Record) -> None:
    """What pdctl made stays pdctl's: the last cluster that uses it removes it."""
    if record.made(key, True) and not heir.rows[key]["created"]:
        heir.rows[key]["created"] = True
        heir.write()


def _words(key: str) -> str:
    return key.replace(":", " ", 1)
