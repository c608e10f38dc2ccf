"""The report of an adoption on a terminal: what was found where, then the notes by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

TITLES = {
    "contradiction": ("Contradictions in what runs", "bold red"),
    "left out": ("Not in the draft", "bold yellow"),
    "guess": ("Guessed", "bold yellow"),
    "different": ("pdctl would do differently", "bold"),
    "secret": ("Secrets, by name only", "bold"),
}


def show_report(document: Mapping[str, Any], console: Console) -> None:
    """Nothing from a host is read as markup."""
    _title(console, "Found", "bold")
    for row in document["hosts"]:
        console.print(Text("  " + _host(row)))
    for row in document["found"]:
        console.print(Text("  " + _found(row)))
    if proxy := document["proxy"]:
        console.print(
            Text(f"  {'proxy':<14} {proxy['host']}:{proxy['port']}  {proxy['process']}  ({proxy['kind']})")
        )
    for kind, (title, style) in TITLES.items():
        notes = [note for note in document["notes"] if note["kind"] == kind]
        if notes:
            _title(console, title, style)
        for note in notes:
            original = f"  [{note['original']}]" if note["original"] else ""
            console.print(Text(f"  {note['where']}: {note['text']}{original}"))
    if document["stop_first"]:
        _title(console, "Before `pdctl apply`: these hold its GPUs and ports", "bold")
        for host, commands in document["stop_first"].items():
            for command in commands:
                console.print(Text(f"  {host}: {command}"))


def _title(console: Console, title: str, style: str) -> None:
    console.print(Text(title, style=style))


def _host(row: Mapping[str, Any]) -> str:
    kinds = {name: row["gpus"].count(name) for name in row["gpus"]}
    gpus = "".join(f"  {count} x {name}" for name, count in kinds.items())
    return f"{row['host']:<14} {row['address']}  {row['os']}{gpus}" + (
        f"  driver {row['driver']}" if row["driver"] else ""
    )


def _found(row: Mapping[str, Any]) -> str:
    gpus = f"  GPUs {','.join(map(str, row['gpus']))}" if row["gpus"] else ""
    versions = "  ".join(f"{name} {version}" for name, version in row["versions"].items())
    simulated = "  simulator" if row["simulated"] else ""
    return (
        f"{row['instance'] or row['role'] or '?':<14} {row['host']}:{row['port']}  {row['process']}"
        f"  TP {row['tensor_parallel']}{gpus}{simulated}  {versions}"
    ).rstrip()
