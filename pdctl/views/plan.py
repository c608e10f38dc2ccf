"""The plan's JSON document -> text for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

SYMBOL = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red"), "forget": ("=", "dim")}


def show_plan(document: Mapping[str, Any], console: Console, *, diffs: bool = True) -> None:
    """Drift apart from changes, then restarts, steps and a summary line."""
    if document["drift"]:
        _drift(document, console)
    if document["changes"]:
        _changes(document, console, diffs=diffs)
    if document["restarts"]:
        _restarts(document, console)
    if document["steps"] and document["changes"]:
        _steps(document, console)
    for host, reason in document["unreachable"].items():
        console.print(Text.assemble(("! ", "red"), f"{host} was left out: {reason}"))
    console.print(Text(summary(document)))


def summary(document: Mapping[str, Any]) -> str:
    """One line: what would be done, or that there is nothing to do."""
    cluster = document["cluster"]
    if document["empty"]:
        left_out = " on the hosts that answered" if document["unreachable"] else ""
        return f"Nothing to do{left_out}: `{cluster}` is as its spec says"
    counts = {name: sum(c["action"] == name for c in document["changes"]) for name in SYMBOL}
    words = [f"{n} to {name}" for name, n in counts.items() if n]
    words += [f"{len(document['restarts'])} to restart"] if document["restarts"] else []
    words += [f"{len(document['drift'])} drifted"] if document["drift"] else []
    return f"Plan for `{cluster}`: {', '.join(words) or 'only the record has to be renewed'}"


def _drift(document: Mapping[str, Any], console: Console) -> None:
    console.print(Text("Changed outside pdctl since the last apply:", style="bold"))
    for row in document["drift"]:
        line = Text.assemble(("  ! ", "magenta"), f"{row['host']}  {_name(row['id'])}", "  ")
        console.print(line.append("; ".join(row["what"]), style="dim"))
    console.print()


def _changes(document: Mapping[str, Any], console: Console, *, diffs: bool) -> None:
    console.print(Text("Changes:", style="bold"))
    host = ""
    for row in document["changes"]:
        if row["host"] != host:
            host = row["host"]
            console.print(Text(f"  {host}", style="bold"))
        symbol, style = SYMBOL[row["action"]]
        line = Text.assemble((f"    {symbol} ", style), _name(row["id"]))
        why = [] if row["action"] == "create" and not row["drift"] else row["why"]
        why = [*why, "drift"] if row["drift"] else why
        console.print(line.append(f"  {'; '.join(why)}" if why else "", style="dim"))
        if diffs:
            _file_diff(row["diff"], console)
    console.print()


def _file_diff(lines: list[str], console: Console) -> None:
    for line in lines:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
        console.print(Text(f"        {line}", style=style))


def _restarts(document: Mapping[str, Any], console: Console) -> None:
    console.print(Text("Restarts:", style="bold"))
    for row in document["restarts"]:
        line = Text.assemble(("    ↻ ", "yellow"), f"{row['host']}  {row['instance']}")
        console.print(line.append(f"  because of {'; '.join(row['causes'])}", style="dim"))
    console.print()


def _steps(document: Mapping[str, Any], console: Console) -> None:
    console.print(Text("Order:", style="bold"))
    for number, step in enumerate(document["steps"], 1):
        hosts = sorted({r["host"] for r in step["resources"]})
        shown = ", ".join(hosts[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")
        console.print(Text(f"    {number}. {step['title']} ({shown})"))
    console.print()


def _name(resource_id: str) -> str:
    kind, name = resource_id.split(":", 1)
    return f"{kind} {name}"
