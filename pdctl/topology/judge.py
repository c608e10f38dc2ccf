"""The arrow Inspection -> Judgement: all that can be known of a spec without a host, and its topology."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pdctl.errors import PdctlError, SpecError
from pdctl.spec.finding import Finding
from pdctl.spec.load import Inspection, group, inspect_file
from pdctl.spec.model_files import ModelFiles, model_files
from pdctl.spec.rules.suppress import apart, unused
from pdctl.topology.model import Topology
from pdctl.topology.resolve import survey

# Families of rules whose errors change nothing in where instances, GPUs and ports go.
ELSEWHERE = frozenset(
    {"ARG", "BENCH", "DRIVER", "ENV", "KV", "MATCH", "MODEL", "NIC", "PIN", "SECRET", "SUPPRESS", "USE"}
)


@dataclass(frozen=True)
class Judgement:
    """What was found in a file, each with its place; `topology` is None when there are errors."""

    name: str
    topology: Topology | None
    errors: tuple[SpecError, ...] = ()
    warnings: tuple[SpecError, ...] = ()
    suppressed: tuple[tuple[SpecError, str], ...] = ()  # with the reason that the file gives
    left_out: int = 0

    def error(self) -> PdctlError:
        """All errors as one, to be raised; a file that cannot be read is no group."""
        if [error.rule for error in self.errors] == ["FILE001"]:
            return self.errors[0]
        return group(self.errors, self.name, self.left_out)

    def sound(self) -> Topology:
        """The topology. Raises ErrorGroup with every error when there is none."""
        if self.topology is None:
            raise self.error()
        return self.topology


def judge_file(path: Path) -> Judgement:
    """Read and judge a file; one that cannot be read is an error like any other."""
    seen = inspect_file(path)
    return judge(seen, files_of(seen))


def files_of(seen: Inspection) -> ModelFiles | None:
    """What this machine has of the model that the spec names."""
    return model_files(seen.cluster.model, start=Path(seen.name).parent) if seen.cluster else None


def judge(seen: Inspection, files: ModelFiles | None = None) -> Judgement:
    """What the spec's own text says, then what follows from it and the model once it is resolved."""
    kept, hushed = apart(seen.suppressed, seen.found)
    if seen.cluster is None or seen.text is None or not _can_be_resolved(kept):
        return _judgement(seen, None, kept, hushed)
    topology, findings = survey(seen.cluster, files)
    more, more_hushed = apart(seen.suppressed, seen.text.located(findings))
    hushed += more_hushed
    kept += more
    if not _errors(kept):
        kept += seen.text.located(unused(seen.cluster, hushed))
    return _judgement(seen, None if _errors(kept) else topology, kept, hushed)


def judge_more(seen: Inspection, judgement: Judgement, findings: Iterable[Finding]) -> Judgement:
    """The same with what was found elsewhere, such as on the hosts; errors among it leave no topology."""
    assert seen.text is not None
    kept, hushed = apart(seen.suppressed, seen.text.located(findings))
    more = tuple((found, seen.suppressed[found.rule]) for found in hushed)
    errors = (*judgement.errors, *_errors(kept))
    return replace(
        judgement,
        topology=None if errors else judgement.topology,
        errors=errors,
        warnings=(*judgement.warnings, *(found for found in kept if found.severity == "warning")),
        suppressed=(*judgement.suppressed, *more),
    )


def _judgement(
    seen: Inspection, topology: Topology | None, kept: Iterable[SpecError], hushed: Sequence[SpecError]
) -> Judgement:
    ordered = sorted(kept, key=lambda found: found.place[1:3] if found.place else (0, 0))
    return Judgement(
        name=seen.name,
        topology=topology,
        errors=tuple(_errors(ordered)),
        warnings=tuple(found for found in ordered if found.severity == "warning"),
        suppressed=tuple((found, seen.suppressed[found.rule]) for found in hushed),
        left_out=seen.left_out,
    )


def _can_be_resolved(found: Iterable[SpecError]) -> bool:
    """Whether hosts, roles and places are sound, so that what follows from them can be told as well."""
    return all(error.rule.rstrip("0123456789") in ELSEWHERE for error in _errors(found))


def _errors(found: Iterable[SpecError]) -> list[SpecError]:
    return [each for each in found if each.severity == "error"]
