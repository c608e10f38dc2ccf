"""What a host holds: one type for the desired, the observed and the recorded state."""

from pdctl.state.model import (
    Directory,
    File,
    Key,
    Package,
    Resource,
    State,
    Unit,
    User,
    Venv,
    Weights,
    difference,
    key_of,
)

__all__ = [
    "Directory",
    "File",
    "Key",
    "Package",
    "Resource",
    "State",
    "Unit",
    "User",
    "Venv",
    "Weights",
    "difference",
    "key_of",
]
