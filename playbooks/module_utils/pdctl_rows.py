"""What controller and host say to each other about one thing: a row, and its id."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]  # "kind" and the fields of that kind in pdctl/state/model.py
Rows = dict[str, Row]  # by id, or by name within one kind


def row_id(row: Row) -> str:
    """`kind:name`, the same as the controller's `Resource.id`."""
    name: str = row["path"] if "path" in row else row["name"]
    return f"{row['kind']}:{name}"


def row_of(key: str) -> Row:
    """The smallest row that asks about `key`."""
    kind, name = key.split(":", 1)
    return {"kind": kind, ("name" if kind in ("user", "package", "unit") else "path"): name}
