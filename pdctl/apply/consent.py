"""What only an explicit word allows: to go back to an older version of a package."""

from __future__ import annotations

from pdctl.apply.look import Look
from pdctl.errors import ApplyError
from pdctl.plan.downgrades import downgrades
from pdctl.state import Package

SHOWN = 4
FLAG = "--allow-downgrades"


def refuse_downgrades(seen: Look, *, allowed: bool) -> None:
    """Raises ApplyError before anything is changed."""
    found = list(downgrades(seen.plan))
    if allowed or not found:
        return
    words = []
    for change in found[:SHOWN]:
        want, have = change.desired, change.observed
        assert isinstance(want, Package) and isinstance(have, Package)
        words.append(f"{change.key.host}: {want.name} {have.version} -> {want.version}")
    more = f"; and {len(found) - SHOWN} more" if found[SHOWN:] else ""
    raise ApplyError(
        f"packages would become older, and nothing was changed: {'; '.join(words)}{more}",
        hint=f"`pdctl apply {FLAG}` does it, with all that belongs to them; or pin the newer version",
    )
