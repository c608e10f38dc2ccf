"""Where the time of a command went -> a table for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

COLUMNS = ("part", "seconds", "hosts", "least", "median", "most", "slowest")


def show_timing(document: Mapping[str, Any], console: Console) -> None:
    """One row for each part, those inside another indented; the total last."""
    table = Table(box=box.SIMPLE_HEAD, show_footer=True, pad_edge=False)
    for name in COLUMNS:
        footer = {"part": "all", "seconds": f"{document['total_s']:.3f}"}.get(name, "")
        table.add_column(name, footer, justify="left" if name in ("part", "slowest") else "right")
    for row in document["parts"]:
        table.add_row(*_cells(row))
    console.print(table)


def _cells(row: Mapping[str, Any]) -> list[str]:
    *around, name = row["part"]
    cells = ["  " * len(around) + name, f"{row['seconds']:.3f}"]
    if "hosts" in row:
        cells += [str(row["hosts"]), *(f"{row[key]:.3f}" for key in ("least_s", "median_s", "most_s"))]
        cells.append(row["slowest"])
    return cells
