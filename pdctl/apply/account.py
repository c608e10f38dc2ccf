"""Look x spec -> all that is told beside a plan: why, how long, whom it touches, what is not pdctl's own."""

from __future__ import annotations

import hashlib

from pdctl import __version__
from pdctl.apply.look import Look
from pdctl.hosts.timing import laps
from pdctl.parts.cluster_lock import kept_text
from pdctl.plan.document import Details
from pdctl.plan.effects import effects
from pdctl.plan.estimate import estimate
from pdctl.plan.foreign import foreign
from pdctl.plan.radius import radius
from pdctl.plan.reasons import Ground, Reasons, find_reasons
from pdctl.plan.repositories import obstacles
from pdctl.spec.load import Reading
from pdctl.state import File, State


def account(seen: Look, reading: Reading | None = None) -> Details:
    """Without `reading` nothing is said of the spec's lines: destroy has none that ask for it."""
    with laps("account"):
        plan, found = seen.plan, seen.seen
        applied = found.newest_spec
        machines = {host: facts.machine for host, facts in found.facts.items()}
        return Details(
            reasons=_reasons(seen, reading) if reading else Reasons({}),
            estimates=estimate(seen.topology, plan, seen.desired, found.timings),
            radius=radius(seen.topology, plan, found.state),
            effects=tuple(effects(plan)),
            foreign=(
                *foreign(found.foreign, machines, found.state, _gpu_notes(seen), seen.desired),
                *obstacles({host: facts.apt for host, facts in found.facts.items()}),
            ),
            selection=seen.selection,
            since=f"generation {applied.number}" if applied else "",
            goal="" if seen.desired else "nothing",
        )


def _reasons(seen: Look, reading: Reading) -> Reasons:
    applied = seen.seen.newest_spec
    ground = Ground(
        topology=seen.topology,
        reading=reading,
        desired=seen.desired,
        secret_digest=_secret_digest(seen.desired),
        earlier=applied.text if applied else None,
        of_hosts={host: kept.spec_text.text for host, kept in seen.seen.kept.items() if kept.spec_text},
        applied_by={host: meta.pdctl for host, meta in seen.seen.records.items()},
        version=__version__,
        relocked=applied is not None and applied.lock != _lock_digest(seen),
    )
    return find_reasons(seen.plan, ground)


def _lock_digest(seen: Look) -> str:
    """As hosts name what they keep."""
    text = kept_text(seen.topology.lock)
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def _secret_digest(desired: State) -> str:
    """That of the secrets as the wish was made with them: only the edge can compute it."""
    return next((row.digest for row in desired.values() if isinstance(row, File) and row.secret), "")


def _gpu_notes(seen: Look) -> dict[str, tuple[str, ...]]:
    """What nvidia-smi complained of, where instances have GPUs."""
    used = {instance.host for instance in seen.topology.instances if instance.gpus}
    return {host: notes for host, notes in seen.seen.notices.items() if host in used}
