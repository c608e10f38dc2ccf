"""The status document -> a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

COLUMNS = ("instance", "host", "unit", "health", "version", "url")


def show_status(document: Mapping[str, Any], console: Console) -> None:
    """One row an instance; simulated engines say so in every row; drift is summed up below."""
    table = Table(*COLUMNS, box=box.SIMPLE if console.is_terminal else None, pad_edge=False)
    for row in document["instances"]:
        style = "green" if row["healthy"] else "red"
        version = f"{row['version']} SIMULATED" if row["simulated"] else row["version"]
        gpus = f" gpus {','.join(map(str, row['gpus']))}" if row["gpus"] else ""
        table.add_row(
            row["instance"],
            Text(row["host"] + gpus),
            Text(row["unit"]),
            Text(row["reason"], style=style),
            Text(version),
            Text(row["url"]),
        )
    console.print(table)
    for host, reason in document["unreachable"].items():
        console.print(Text(f"! {host}: {reason}", style="red"))
    drift, changes = len(document["drift"]), document["changes"]
    if drift or changes:
        console.print(Text(f"{drift} drifted, {changes} to change: see `pdctl diff`", style="yellow"))
    else:
        console.print(Text("As the spec says, nothing drifted"))
