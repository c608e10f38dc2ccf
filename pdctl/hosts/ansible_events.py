"""ansible-runner's events -> what a user wants to know: one line as it happens, one result per host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Kind = Literal["play", "task", "started", "ok", "failed", "ignored", "unreachable", "skipped", "notice"]
Status = Literal["ok", "failed", "unreachable"]

# What becomes of an event; all others (items of loops, includes, statistics) are not shown.
KINDS: Mapping[str, Kind] = {
    "playbook_on_play_start": "play",
    "playbook_on_task_start": "task",
    "runner_on_start": "started",
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
    "warning": "notice",
    "system_warning": "notice",
    "error": "notice",
}
# Ansible 2.18 and 2.19 (plugins/connection/ssh.py) -> what it means.
LOST = {
    "Data could not be sent to remote host": "its ssh connection was lost in the middle of work",
    "Failed to connect to the host via ssh:": "there is no ssh connection to it for its work",
}
# ansible-core 2.19 puts these before a module's own words; 2.18 does not.
PREFIXES = ("Task failed: ", "Module failed: ", "Action failed: ")


@dataclass(frozen=True)
class Event:
    """One thing that happened. `host` is empty for plays, tasks, notices; `data` is the module's result."""

    kind: Kind
    host: str = ""
    task: str = ""
    changed: bool = False
    msg: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HostResult:
    """How a host came out: what was done there, and why it ended early if it did."""

    host: str
    status: Status = "ok"
    message: str = ""
    task: str = ""
    changed: bool = False
    did: tuple[str, ...] = ()
    journal: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def event_of(raw: Mapping[str, Any]) -> Event | None:
    """None for what nobody needs to see."""
    kind = KINDS.get(raw.get("event", ""))
    if kind is None:
        return None
    data = raw.get("event_data") or {}
    result = data.get("res") or {}
    if kind == "failed" and data.get("ignore_errors"):
        kind = "ignored"
    if kind == "notice":
        return Event(kind, msg=str(raw.get("stdout", "")).strip())
    return Event(
        kind,
        host=data.get("host", ""),
        task=data.get("play" if kind == "play" else "task", ""),
        changed=bool(result.get("changed")),
        msg=_why(kind, result, data.get("task", "")),
        data=result,
    )


def advance(before: HostResult, event: Event) -> HostResult:
    """A host's result after one more event."""
    if event.kind not in ("ok", "failed", "unreachable"):
        return before
    journal = {unit: tuple(lines) for unit, lines in (event.data.get("journal") or {}).items()}
    after = replace(
        before,
        changed=before.changed or event.changed,
        did=(*before.did, *(event.data.get("did") or ())),
        journal={**before.journal, **journal},
    )
    if event.kind == "ok":
        return after
    status: Status = "unreachable" if event.kind == "unreachable" else "failed"
    return replace(after, status=status, message=event.msg, task=event.task)


def _why(kind: Kind, result: Mapping[str, Any], task: str) -> str:
    if kind == "unreachable":
        return lost(reason(result), task)
    return reason(result) if kind in ("failed", "ignored") else ""


def reason(result: Mapping[str, Any]) -> str:
    """Why a task failed: the message of the module or of the failed items, and the end of stderr."""
    if result.get("censored"):
        return "failed; its output is hidden because it deals with secrets"
    failed = [item for item in result.get("results") or () if isinstance(item, dict) and item.get("failed")]
    if failed:
        return "; ".join(dict.fromkeys(reason(item) for item in failed))
    text = str(result.get("msg") or "").replace("\r\n", "\n").strip()
    for prefix in PREFIXES:
        text = text.removeprefix(prefix)
    stderr = _last_lines(result.get("module_stderr") or result.get("stderr") or "")
    return "\n".join([text, *stderr]) if text else "\n".join(stderr) or "failed without a message"


def lost(said: str, task: str) -> str:
    """One line in place of Ansible's words around those of ssh: at what the host was lost, and why."""
    for prefix, what in LOST.items():
        if said.startswith(prefix):
            rest = said.removeprefix(prefix).split("over ssh:")[-1]
            words = "; ".join(line.strip() for line in rest.splitlines() if line.strip())
            return f"{what} (`{task}`)" + (f": {words}" if words else "")
    return said


def _last_lines(text: str, count: int = 5) -> Sequence[str]:
    return [line for line in text.strip().splitlines() if line.strip()][-count:]
