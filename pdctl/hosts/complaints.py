"""How a program failed on a host -> an error that says what to do about it."""

from __future__ import annotations

import re
from typing import NamedTuple

from pdctl.errors import HostError
from pdctl.hosts.reach import PYTHON, Reach
from pdctl.hosts.session import Result

CANNOT_RUN = (126, 127)  # POSIX shell: not executable, not found


class Complaint(NamedTuple):
    """What stderr says, what it means, and what helps; `{user}` and `{python}` are filled in."""

    pattern: str
    message: str
    hint: str


_NOPASSWD = "as root on the host: echo '{user} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/pdctl"
_PYTHON = "on the host: apt-get install python3"

# Texts of sudo 1.9 (plugins/sudoers: auth, check, logging) and of dash and bash, in LC_ALL=C.
COMPLAINTS = (
    Complaint(r"sudo: a (password|terminal) is required", "sudo asks {user} for a password", _NOPASSWD),
    Complaint(
        r"is not in the sudoers file|may not run sudo|is not allowed to", "{user} may not use sudo", _NOPASSWD
    ),
    Complaint(r"sudo: you must have a tty", "sudo wants a terminal", "remove `requiretty` from sudoers"),
    Complaint(
        r"sudo: account validation failure|sudo: .*expired", "sudo refuses {user}'s account", _NOPASSWD
    ),
    Complaint(r"python3\S*: (command )?not found", "{python} is missing", _PYTHON),
    Complaint(r"python3\S*: No such file or directory", "{python} is missing", _PYTHON),
    Complaint(r"sudo: (command )?not found|sudo.*No such file", "sudo is missing", "apt-get install sudo"),
    Complaint(r"No space left on device", "its disk is full", "on the host: df -h"),
)


def complaint(reach: Reach, user: str, result: Result) -> HostError | None:
    """The error behind a program that did not even begin, if its stderr is one of the known ones."""
    said = result.err.decode(errors="replace")
    for known in COMPLAINTS:
        if result.rc and re.search(known.pattern, said):
            message, hint = (text.format(user=user, python=PYTHON) for text in known[1:])
            return HostError(message, where=reach.name, hint=hint)
    if result.rc in CANNOT_RUN:
        return HostError(f"cannot run {PYTHON}: {said.strip()}", where=reach.name, hint=_PYTHON)
    return None
