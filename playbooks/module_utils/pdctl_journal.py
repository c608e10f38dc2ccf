"""Every module call of an apply -> lines of the host's journal: begun, then ended or failed."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator

from ansible.module_utils.pdctl_difference import Problem, told
from ansible.module_utils.pdctl_kept import write_whole
from ansible.module_utils.pdctl_observe_generations import JOURNAL, lock_owner
from ansible.module_utils.pdctl_rows import Row

AT_FIRST, MEANWHILE = "nothing was changed by this step", "it does nothing more here"
LIMIT = 512 * 1024  # bytes of the file; then its older half goes
SHOWN, LONGEST = 40, 300  # lines of what was done, and letters of each


@contextlib.contextmanager
def journaled(request: Row, did: list[str]) -> Iterator[None]:
    """Around the work of a request that came under a lock; others (a rendered project's) leave no trace.

    Refuses when the lock is another's: a controller that was cut off may have left workers behind, whose
    lock somebody has taken over.
    """
    token = request.get("token")
    if not token:
        yield
        return
    folder = os.path.dirname(request["record"])
    refuse_if_lost(folder, token)
    entry = {name: request.get(name) for name in ("generation", "step")}
    entry["by"] = (request.get("meta") or {}).get("by", "")
    begun, done = time.monotonic(), len(did)
    append(folder, dict(entry, event="begin"))

    def outcome(event: str) -> Row:
        lines = [line[:LONGEST] for line in did[done:][:SHOWN]]
        return dict(entry, event=event, seconds=round(time.monotonic() - begun, 2), did=lines)

    try:
        yield
    except (Problem, OSError) as error:
        note(folder, token, dict(outcome("failed"), why=told(error)[:LONGEST]), did)
        raise
    note(folder, token, outcome("end"), did)


def refuse_if_lost(folder: str, token: str, then: str = AT_FIRST) -> None:
    held = lock_owner(folder)
    if not _is_ours(held, token):
        who = f"{held['by']} has it (`{held['command']}`)" if held else "nobody has it"
        raise Problem(f"this apply has lost its lock on this host: {who}; {then}")


def _is_ours(held: Row | None, token: str) -> bool:
    return held is not None and held["token"] == token


def note(folder: str, token: str, entry: Row, did: list[str]) -> None:
    """After the work a journal that cannot be written is worth a line, not a failure."""
    if not os.path.exists(os.path.join(folder, JOURNAL)):  # it went with the last thing on this host
        return
    if not _is_ours(lock_owner(folder), token):  # its last line tells what whoever has it now is at
        return
    try:
        append(folder, entry)
    except OSError as error:
        did.append(f"the journal was not written: {error.strerror}")


def append(folder: str, entry: Row) -> None:
    """One line, on disk at once, after whatever a power cut may have left of the line before."""
    path = os.path.join(folder, JOURNAL)
    line = json.dumps(dict(entry, time=time.time()), sort_keys=True).encode() + b"\n"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, b"\n" + line if torn else line)
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(handle)
    if size > LIMIT:
        with open(path, "rb") as whole:
            text = whole.read()
        write_whole(path, text[text.index(b"\n", len(text) // 2) + 1 :])
