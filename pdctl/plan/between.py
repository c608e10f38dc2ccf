"""Old spec x new spec -> which resources follow from which changed fields, by rendering the specs between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from pdctl.desired import desire
from pdctl.errors import ErrorGroup, SpecError
from pdctl.spec import rules
from pdctl.spec.changes import Field, with_fields
from pdctl.spec.model import Cluster
from pdctl.spec.model_files import ModelFiles
from pdctl.spec.rules.table import TABLE
from pdctl.state import Key, State, difference
from pdctl.topology import resolve

# Beyond these nothing is told apart any more: a spec between takes about 1 ms per host to render.
MOST_FIELDS = 24
MOST_RENDERED = 800  # fields x hosts
NONE: frozenset[Key] = frozenset()


@dataclass(frozen=True)
class Group:
    """Fields that are told apart from the others, but not from one another."""

    fields: tuple[Field, ...]
    too_many: bool = False


@dataclass
class Between:
    """The two specs, and what has been rendered between them."""

    before: Cluster
    after: Cluster
    desired: State  # of `after`
    secret_digest: str
    files: ModelFiles | None = None  # what the controller has of the model of `after`
    _rendered: dict[frozenset[tuple[object, ...]], State | None] = field(default_factory=dict)
    _differing: frozenset[Key] | None = None

    def differing(self) -> frozenset[Key]:
        """Resources that the two specs ask for differently."""
        if self._differing is None:
            old, new = self._old(), self.desired
            self._differing = frozenset(key for key in old.keys() | new.keys() if _differs(old, new, key))
        return self._differing

    def touched_by(self, group: Group, *, alone: bool) -> frozenset[Key]:
        """Those that come, go or change as soon as `group` does; `alone`: there is no other group."""
        if alone:
            return self.differing()
        state = self.render(group.fields)
        return self._where(lambda key: _follows(state, self._old(), self.desired, key)) if state else NONE

    def needing(self, group: Group, fields: Sequence[Field]) -> frozenset[Key]:
        """Those that would not come, go or be as wanted if of `fields` all but `group` had changed."""
        state = self.render([f for f in fields if f not in group.fields])
        return self._where(lambda key: _follows(state, self.desired, self._old(), key)) if state else NONE

    def render(self, fields: Sequence[Field]) -> State | None:
        """What the old spec with `fields` changed asks for; None when no spec can be so."""
        known = frozenset(f.path for f in fields)
        if known not in self._rendered:
            self._rendered[known] = self._render(fields)
        return self._rendered[known]

    def _render(self, fields: Sequence[Field]) -> State | None:
        try:
            cluster = with_fields(self.before, self.after, fields)
            if any(TABLE[found.rule].severity == "error" for found in rules.findings(cluster)):
                return None
            files = self.files if cluster.model.id == self.after.model.id else None
            return desire(resolve(cluster, files), self.secret_digest)
        except (ValidationError, ErrorGroup, SpecError):
            return None

    def _old(self) -> State:
        return self.render(()) or {}

    def _where(self, holds: Callable[[Key], bool]) -> frozenset[Key]:
        return frozenset(key for key in self.differing() if holds(key))


def groups_of(between: Between, fields: Sequence[Field]) -> list[Group]:
    """The fields one by one; those that make no spec alone go together."""
    if len(fields) == 1:
        return [Group(tuple(fields))]
    if len(fields) > MOST_FIELDS or len(fields) * len(between.after.hosts) > MOST_RENDERED:
        return [Group(tuple(fields), too_many=True)]
    single = [f for f in fields if between.render([f]) is not None]
    rest = [f for f in fields if f not in single]
    if rest and between.render(rest) is None:
        return [Group(tuple(fields))]
    return [*(Group((f,)) for f in single), *([Group(tuple(rest))] if rest else [])]


def _differs(one: State, two: State, key: Key) -> bool:
    if key not in one or key not in two:
        return key in one or key in two
    return bool(difference(two[key], one[key]))


def _follows(state: State, start: State, end: State, key: Key) -> bool:
    """Whether `key` in `state` has left how it is in `start`: gone or come, if it is to go or to come."""
    if key in start and key in end:
        return _differs(state, start, key)
    return (key in state) == (key in end)
