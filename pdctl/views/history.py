"""The history document -> a table, and the lock as a line for each host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pdctl.apply.ages import age

COLUMNS = ("", "when", "by", "pdctl", "what", "state")
STYLES = {"complete": "green", "running": "cyan"}


def show_history(document: Mapping[str, Any], console: Console) -> None:
    """Newest first; `*` marks the present one."""
    table = Table(*COLUMNS, box=box.SIMPLE if console.is_terminal else None, pad_edge=False)
    for row in document["generations"]:
        when = f"{row['at'][:16].replace('T', ' ')} ({age(row['age_s'])} ago)".strip()
        table.add_row(
            Text(f"{'*' if row['current'] else ' '}{row['number']}"),
            Text(when),
            Text(row["by"]),
            Text(row["pdctl"]),
            Text(row["what"]),
            Text(row["state"], style=STYLES.get(row["state"], "yellow")),
        )
    if document["generations"]:
        console.print(table)
    else:
        console.print(f"`{document['cluster']}` has no history: nothing was applied yet", markup=False)
    for host, reason in document["unreachable"].items():
        console.print(Text(f"! {host}: {reason}", style="red"))
