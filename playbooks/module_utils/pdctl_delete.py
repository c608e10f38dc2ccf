"""Rows or ids that must go -> gone, except what was there before pdctl or another cluster still needs."""

from __future__ import annotations

import contextlib
import errno
import os

from ansible.module_utils.pdctl_files import remove_file, remove_tree, run
from ansible.module_utils.pdctl_observe import row_id, row_of
from ansible.module_utils.pdctl_packages import purge_packages
from ansible.module_utils.pdctl_record import Record, other_records
from ansible.module_utils.pdctl_units import remove_units
from ansible.module_utils.pdctl_venvs import remove_venv

ORDER = ("unit", "file", "venv", "package", "user", "directory")
UNIT_FOLDER = "/etc/systemd/system/"
PACKAGE, TREE = "package:", "tree:"  # what an extra is when it is no path to a single file or folder


def doomed_ids(request: dict, record: Record) -> list:
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


def delete(keys: list, existing: dict, record: Record) -> list:
    """What was done, in words. Things of others are only dropped from the record."""
    others = other_records(record)
    did = []
    mine = []
    for key in keys:
        heirs = [other for other in others if key in other.rows]
        if heirs:
            hand_over(key, record, heirs[0])
        if record.made(key, True) and not heirs:
            mine.append(key)
        elif key in record.rows:
            did.append(
                f"leave {_words(key)}: {'another cluster uses it' if heirs else 'it was there before pdctl'}"
            )
    did += [f"delete {_words(key)}" for key in mine if key in existing and not key.startswith("directory:")]
    remove(mine)
    did += remove_directories([key.split(":", 1)[1] for key in mine if key.startswith("directory:")])
    for key in keys:
        record.forget(key)
    return did


def remove(keys: list) -> None:
    """Everything but directories; a thing that is already gone is fine, and leftovers beside it go too."""
    names = {kind: [key.split(":", 1)[1] for key in keys if key.startswith(kind + ":")] for kind in ORDER}
    if names["unit"]:
        remove_units(names["unit"])
    for path in names["file"]:
        remove_file(path)
    if names["unit"] or any(path.startswith(UNIT_FOLDER) for path in names["file"]):
        run(["systemctl", "daemon-reload"], "read the unit files again")
    for path in names["venv"]:
        remove_venv(path)
    purge_packages(names["package"])
    for name in names["user"]:
        remove_user(name)


def remove_user(name: str) -> None:
    import pwd

    with contextlib.suppress(KeyError):
        pwd.getpwnam(name)
        run(["userdel", name], f"user {name}")


def remove_directories(paths: list) -> list:
    did = []
    for path in paths:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                raise
            did.append(
                f"leave directory {path}: it is {'in use' if error.errno == errno.EBUSY else 'not empty'}"
            )
        else:
            did.append(f"delete directory {path}")
    return did


def finish(record: Record) -> list:
    """Nothing is recorded any more: what was made by the way goes, or passes to another cluster."""
    heirs = other_records(record)
    extras, record.extras = record.extras, []
    if heirs:
        heirs[0].extras += [extra for extra in extras if extra not in heirs[0].extras]
        heirs[0].write()
    else:
        remove_extras(extras)
    record.remove()
    return ["delete record"]


def remove_extras(extras: list) -> None:
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
