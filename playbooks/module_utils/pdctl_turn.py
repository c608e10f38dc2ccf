"""A controller's turn on this host: lock and generation begun and ended, looked at, broken, recalled."""

from __future__ import annotations

import os
from collections.abc import Callable

from ansible.module_utils.pdctl_generations import (
    begin,
    collect_garbage,
    end,
    forget_all,
    lock_of,
    manifest,
    spec_of,
)
from ansible.module_utils.pdctl_kept import alone
from ansible.module_utils.pdctl_lock import give_back, leave_as_found, take
from ansible.module_utils.pdctl_observe_generations import (
    generations,
    kept_state,
    lock_owner,
    mark,
)
from ansible.module_utils.pdctl_rows import Row


def answer(request: Row) -> Row:
    """`do`: take | end | break | show | recall. What this host cannot do is told in `error`."""
    folder = os.path.dirname(request["record"])
    work: dict[str, Callable[[Row, str], Row]] = {
        "take": taken,
        "end": ended,
        "break": broken,
        "show": shown,
        "recall": recalled,
    }
    try:
        return work[request["do"]](request, folder)
    except OSError as error:
        return {"error": f"{error.filename or folder}: {error.strerror or error}"}


def taken(request: Row, folder: str) -> Row:
    """Compare and set: `held` by whom, `moved` when the plan was made from another state than this.

    A generation that cannot be kept, on a full disk, leaves no lock.
    """
    with alone(folder):
        try:
            refusal = refused(request, folder)
            if not refusal:
                begun(request, folder)
            return refusal
        except OSError:
            give_back(folder, request["owner"]["token"])
            raise
        finally:
            leave_as_found(folder)  # where nothing was taken and nothing was there


def refused(request: Row, folder: str) -> Row:
    """Empty when the lock can be ours."""
    held, token = lock_owner(folder), request["owner"]["token"]
    if held and held["token"] not in (token, request.get("replaces")):
        return {"held": held}
    again = held is not None and held["token"] == token  # asked before: the answer was lost on its way
    if not again and request["mark"] != mark(request["record"], generations(folder)):
        return {"moved": True}
    return {}


def begun(request: Row, folder: str) -> None:
    take(folder, request["owner"])
    generation, token = request.get("generation"), request["owner"]["token"]
    if generation:
        header = dict(generation["header"], token=token)
        begin(folder, header, generation["rows"], generation["spec"], generation.get("lock") or "")


def ended(request: Row, folder: str) -> Row:
    """`lost` to whom, if somebody has taken the lock meanwhile: then what is kept is theirs to sort out."""
    if not os.path.isdir(folder):
        return {}
    token = request["token"]
    with alone(folder):
        held = lock_owner(folder)
        if request.get("number"):
            end(folder, request["number"], token, request["state"])
        if held is None or held["token"] == token:
            tidy(request, folder)
        other = give_back(folder, token)
        leave_as_found(folder)
    return {"lost": other} if other else {}


def tidy(request: Row, folder: str) -> None:
    collect_garbage(folder, request.get("oldest") or 0)
    if request.get("forget") and not os.path.exists(request["record"]):
        forget_all(folder)


def broken(request: Row, folder: str) -> Row:
    """The lock of the owner that was shown; another one's stays."""
    if not os.path.isdir(folder):
        return {}
    with alone(folder):
        other = give_back(folder, request["token"])
        leave_as_found(folder)
    return {"held": other} if other else {}


def shown(request: Row, folder: str) -> Row:
    return {"kept": kept_state(request["record"])}


def recalled(request: Row, folder: str) -> Row:
    """What this host held at `number`, and spec and lock of that generation if it had part in it; or `only`
    one of them, of which the others, if they are damaged, keep nobody."""
    work = {"manifest": manifest, "spec": spec_of, "lock": lock_of}
    names = [request["only"]] if request.get("only") else list(work)
    return {name: work[name](folder, request["number"], request.get("life") or "") for name in names}
