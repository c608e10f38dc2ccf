"""Every error pdctl expects: what is wrong, where, and the next step; printed once, in `cli.main`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class PdctlError(Exception):
    """An expected failure.

    `message` says what is wrong in the user's words, with the value. `where` is `file:line: key.path` or
    `host/instance`. `hint` is one next action, usually a command.
    """

    exit_code = 1

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class ErrorGroup(PdctlError):
    """Several errors found in one pass, printed together."""

    def __init__(self, message: str, errors: Sequence[PdctlError], *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.errors = tuple(errors)


class UnfinishedError(ErrorGroup):
    """Work on hosts that some of them did not finish; `did`, by host, is what was done all the same."""

    def __init__(
        self,
        message: str,
        errors: Sequence[PdctlError],
        did: Mapping[str, Sequence[str]],
        *,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, errors, hint=hint)
        self.did = dict(did)


class Place(NamedTuple):
    """A place in a file of the user's: line and column count from 1, 0 where there is none."""

    file: str
    line: int = 0
    column: int = 0
    path: str = ""  # the key path, e.g. `serving.decoders`

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{text}: {self.path}" if self.path else text


class SpecError(PdctlError):
    """The spec asks for something that cannot be, or only warns; `rule` is the id of docs/rules.md."""

    def __init__(
        self,
        message: str,
        *,
        where: str | Place | None = None,
        hint: str | None = None,
        rule: str = "",
        severity: str = "error",
    ) -> None:
        super().__init__(message, where=None if where is None else str(where), hint=hint)
        self.place = where if isinstance(where, Place) else None
        self.rule = rule
        self.severity = severity

    def __str__(self) -> str:
        return f"{super().__str__()} [{self.rule}]" if self.rule else super().__str__()


class UnreachableError(PdctlError):
    """A host does not answer, or refuses the connection."""


class HostError(PdctlError):
    """A host answers but cannot do what is needed (no python3, sudo refused, disk full)."""


class ApplyError(PdctlError):
    """A step of apply or destroy failed."""


class UnhealthyError(PdctlError):
    """Something that was started does not serve."""


class BenchError(PdctlError):
    """A benchmark could not run, or some of its requests failed."""


class LabError(PdctlError):
    """A virtual host could not be made, reached or removed."""


class BundleError(PdctlError):
    """A wheel or package could not be collected, or its hash is not the locked one."""


class LockError(PdctlError):
    """Another pdctl works on the same hosts."""
