"""Wanted row, observed row -> what differs, in words; the same words as `pdctl.state.difference`."""

from __future__ import annotations

import os
from typing import Any

from ansible.module_utils.pdctl_rows import Row

# The compared fields of each kind, as in pdctl/state/model.py; a test holds the two together.
COMPARED = {
    "user": ("name", "home", "shell"),
    "directory": ("path", "owner", "group", "mode"),
    "file": ("path", "digest", "owner", "group", "mode", "secret"),
    "package": ("name", "version", "hold", "deviations"),
    "venv": ("path", "digest", "python", "damage", "proof"),
    "weights": ("path", "revision", "damage"),
    "unit": ("name", "enabled", "active", "revision", "deviations", "loaded", "drained", "sides"),
}
OF_A_PROCESS = ("revision", "loaded", "drained", "sides")


class Problem(Exception):
    """What went wrong on this host, in one message for the user."""


def told(error: BaseException) -> str:
    """The problem, and the earlier one during which it came up."""
    if isinstance(error, OSError):
        closed = isinstance(error, PermissionError) and os.geteuid() != 0
        words = "; this is not root: set `become: true` in the host's ssh section" if closed else ""
        return f"{error.filename or 'this host'}: {error.strerror or error}{words}"
    problems = []
    met: BaseException | None = error
    while met is not None:
        problems += [str(met)] if isinstance(met, Problem) else []
        met = met.__context__
    return "; before that: ".join(dict.fromkeys(problems))


def difference(want: Row, have: Row) -> list[str]:
    """Empty when all is well."""
    return [
        _words(name, have.get(name), want.get(name))
        for name in COMPARED[want["kind"]]
        if _plain_value(want.get(name)) != _plain_value(have.get(name))
        and not _does_not_count(want, have, name)
    ]


def _does_not_count(want: Row, have: Row, name: str) -> bool:
    """Any version will do; a process that does not run says nothing."""
    if name == "version":
        return want.get(name) is None
    if name == "proof":
        return not want.get(name)
    if name not in OF_A_PROCESS:
        return False
    return not have.get("revision") or (name == "loaded" and not want.get(name))


def headline(want: Row, have: Row | None) -> str:
    """`create file /etc/x`, or `update file /etc/x: content; mode 0644 -> 0640`."""
    what = f"{want['kind']} {want.get('path') or want.get('name')}"
    return f"update {what}: {'; '.join(difference(want, have))}" if have else f"create {what}"


def _plain_value(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else value


def _words(name: str, have: Any, want: Any) -> str:
    if name == "digest":
        return "content"
    if name in ("damage", "deviations"):
        return "; ".join(have or ()) or f"{name} expected"
    if name == "proof":
        return "its imports have not been tried as its services start it"
    if name == "revision":
        return "runs with an older configuration"
    if name == "loaded":
        return "works with another list of instances" if have else "its control socket does not answer"
    if name in ("drained", "sides"):
        word = "drained" if name == "drained" else "kept apart"
        return "; ".join([*_said(have, want, f"is {word}"), *_said(want, have, f"is not {word}")])
    return f"{name} {_plain(have)} -> {_plain(want)}"


def _said(these: Any, those: Any, what: str) -> list[str]:
    return [f"{name} {what}" for name in these or () if name not in (those or ())]


def _plain(value: Any) -> str:
    return "yes" if value is True else "no" if value is False else str(value)
