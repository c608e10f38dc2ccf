"""topology -> desired state: every file, unit, user, directory, package and runtime of every host."""

from pdctl.desired.state import desire

__all__ = ["desire"]
