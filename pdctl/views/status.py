"""The status document -> a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pdctl.plan.rollout import some

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
    drift, changes, unseen = len(document["drift"]), document["changes"], list(document["unreachable"])
    there = " on the hosts that answered" if unseen else ""
    if drift or changes:
        words = f"{drift} drifted, {changes} to change{there}: see `pdctl diff`"
    else:
        words = f"As the spec says{there}, nothing drifted{' there' if unseen else ''}"
    unknown = f"; how it is on {some(unseen)} is not known" if unseen else ""
    console.print(Text(words + unknown, style="yellow" if drift or changes or unseen else ""))
