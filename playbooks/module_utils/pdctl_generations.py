"""What this host shall hold after an apply, kept by number from before its first change on."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import json
import os
import shutil
import time

from ansible.module_utils.pdctl_kept import make_folder, remove, write_whole
from ansible.module_utils.pdctl_observe_generations import (
    BROKEN,
    COMPLETE,
    GENERATIONS,
    JOURNAL,
    STORE,
    generations,
    stored,
)
from ansible.module_utils.pdctl_rows import Row

IN_STORE = "store:"  # stands for a file's content, which lies in the store


def begin(folder: str, header: Row, rows: list[Row], spec: str, lock: str = "") -> None:
    """Keep `rows`, `spec` and `lock` as generation `header["number"]`. What fails leaves no manifest."""
    forget_bygone(folder, header.get("life", ""))
    for name in (GENERATIONS, STORE):
        make_folder(os.path.join(folder, name))
    kept = [keep_content(folder, row) for row in rows]
    files = [row["content"][len(IN_STORE) :] for row in kept if row.get("content")]
    text = json.dumps(kept, sort_keys=True).encode()
    references = {"rows": keep(folder, text), "spec": keep(folder, spec.encode())}
    if lock:
        references["lock"] = keep(folder, lock.encode())
    blobs = sorted({*files, *references.values()})
    write(folder, dict(header, **references, blobs=blobs, state="started", begun=time.time()))


def forget_bygone(folder: str, life: str) -> None:
    """Generations of before the cluster was destroyed, when this host could not be reached: their numbers
    are given anew."""
    for row in generations(folder):
        if life and row.get("life") and row["life"] != life:
            remove(path_of(folder, row["number"]))


def keep_content(folder: str, row: Row) -> Row:
    """The row with its content, if it has one, in the store; what is secret has none."""
    if row.get("content") is None:
        return row
    return dict(row, content=IN_STORE + keep(folder, base64.b64decode(row["content"])))


def keep(folder: str, data: bytes) -> str:
    """Its name in the store: what is there already is not written again."""
    name = hashlib.sha256(data).hexdigest()
    try:
        stored(folder, name)
    except OSError:  # missing, torn or damaged
        path = os.path.join(folder, STORE, name)
        if os.path.isdir(path):
            remove(path)
        write_whole(path, data)
    return name


def end(folder: str, number: int, token: str, state: str) -> None:
    """Write down how it ended; one that went with the last thing on this host is no more, and one without
    a state never came about."""
    for row in generations(folder):
        if row["number"] == number and row.get("token") == token:
            if state:
                write(folder, dict(row, state=state, ended=time.time()))
            else:
                os.unlink(path_of(folder, number))


def collect_garbage(folder: str, oldest: int) -> None:
    """Forget what no rollback to `oldest` or a later one needs."""
    found = generations(folder)
    before = [row["number"] for row in found if row["number"] <= oldest and row.get("state") == COMPLETE]
    needed = before[-1:]  # what this host held at `oldest`
    gone = [row for row in found if row["number"] < oldest and row["number"] not in needed]
    for row in gone:
        remove(path_of(folder, row["number"]))
    left = [row for row in found if row not in gone]
    if any(row["state"] == BROKEN for row in left):  # who puts it back from a backup needs what it names
        return
    used = {name for row in left for name in row.get("blobs", ())}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(os.path.join(folder, STORE)):
            if name not in used:
                os.unlink(os.path.join(folder, STORE, name))


def manifest(folder: str, number: int, life: str = "") -> Row | None:
    """What this host held at generation `number`: its newest complete one up to that, with all contents."""
    known = [row for row in of_life(folder, life) if row["number"] <= number]
    done = [row for row in known if row["state"] == COMPLETE]
    refuse_broken(known, done[-1]["number"] if done else 0)
    if not done:
        return None
    rows = [with_content(folder, row) for row in rows_of(folder, done[-1]["rows"])]
    return {"number": done[-1]["number"], "rows": rows, "pdctl": done[-1].get("pdctl", "")}


def rows_of(folder: str, digest: str) -> list[Row]:
    """Raises OSError with the path where a manifest was made to name something else."""
    with contextlib.suppress(ValueError, RecursionError):
        rows = json.loads(stored(folder, digest))
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            return rows
    raise OSError(errno.EINVAL, "it is not what a host holds", os.path.join(folder, STORE, digest))


def of_life(folder: str, life: str) -> list[Row]:
    """Without those of an earlier life of the cluster."""
    return [row for row in generations(folder) if not life or row.get("life", life) == life]


def spec_of(folder: str, number: int, life: str = "") -> str | None:
    """The text of cluster.yaml as generation `number` was made from it."""
    return text_of(folder, number, "spec", life)


def lock_of(folder: str, number: int, life: str = "") -> str | None:
    """The text of cluster.lock likewise; empty where there was none."""
    return text_of(folder, number, "lock", life)


def text_of(folder: str, number: int, name: str, life: str) -> str | None:
    """None where this host had no part in it."""
    for row in of_life(folder, life):
        if row["number"] == number:
            refuse_broken([row], 0)
            return stored(folder, row[name]).decode("utf-8", "replace") if name in row else ""
    return None


def refuse_broken(known: list[Row], since: int) -> None:
    """What is broken could be what is asked for: nobody can know. Raises OSError with the path."""
    for row in known:
        if row["state"] == BROKEN and row["number"] > since:
            path, _, why = row["what"].partition(": ")
            raise OSError(errno.EINVAL, why, path)


def with_content(folder: str, row: Row) -> Row:
    if not str(row.get("content") or "").startswith(IN_STORE):
        return row
    return dict(row, content=base64.b64encode(stored(folder, row["content"][len(IN_STORE) :])).decode())


def forget_all(folder: str) -> None:
    """Nothing of the cluster is left on this host: nor is its history."""
    for name in (GENERATIONS, STORE):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, JOURNAL))


def write(folder: str, row: Row) -> None:
    write_whole(path_of(folder, row["number"]), json.dumps(row, indent=1, sort_keys=True).encode() + b"\n")


def path_of(folder: str, number: int) -> str:
    return os.path.join(folder, GENERATIONS, f"{number}.json")
