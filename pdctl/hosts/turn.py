"""Sessions -> what hosts say about their lock and generations, one request of `pdctl_turn` each."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from pdctl.desired.layout import record_path
from pdctl.errors import HostError
from pdctl.hosts.observation import Kept, LockOwner
from pdctl.hosts.probe import answered
from pdctl.hosts.probe_source import turn_program
from pdctl.hosts.sessions import Sessions

DISK = "on the host: df -h; mount"
# By the words of errno(3).
HINTS = {
    "Permission denied": "with `become: false` the login itself must be allowed to write there",
    "No space left on device": DISK,
    "Disk quota exceeded": DISK,
    "Read-only file system": DISK,
    "Input/output error": DISK,
}


class Manifest(BaseModel):
    """What a host held at a generation: that of its newest complete one up to it."""

    number: int
    rows: list[dict[str, Any]]  # for state.codec, which reads those of an older pdctl too
    pdctl: str = ""


class Said(BaseModel):
    """A host's answer; only what the request was about is set."""

    held: LockOwner | None = None
    moved: bool = False
    lost: LockOwner | None = None
    kept: Kept | None = None
    manifest: Manifest | None = None
    spec: str | None = None
    lock: str | None = None
    error: str = ""


# What it is called where a user reads how long it took.
WORK = {"take": "take the lock", "end": "give the lock back"}


def turn(sessions: Sessions, cluster: str, host: str, do: str, **asked: Any) -> Said:
    """`do` is one of `pdctl_turn.answer`'s. Raises HostError for what the host could not do."""
    request = {"do": do, "record": record_path(cluster), **asked}
    data = answered(
        sessions.run(host, turn_program(request).encode(), what=WORK.get(do, do)), "the program for its lock"
    )
    try:
        said = _adapter().validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise HostError(f"its answer is wrong at {place}: {first['msg']}", where=host) from None
    if said.error:
        raise HostError(said.error, where=host, hint=_hint(said.error))
    return said


def _hint(error: str) -> str | None:
    return next((hint for words, hint in HINTS.items() if words in error), None)


@cache
def _adapter() -> TypeAdapter[Said]:
    return TypeAdapter(Said)
