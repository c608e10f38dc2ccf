"""The plan's changes -> lines: by host, then by instance; what repeats itself is said to be the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pdctl.views.hunks import hunks
from pdctl.views.page import Page, Part

SYMBOL = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red"), "forget": ("=", "dim")}
WHOLE = {"create": "new", "delete": "goes", "forget": "leaves the record, stays on the host"}
DIFF_STYLE = {"+": "green", "-": "red", "@": "cyan"}
REVISION = re.compile(r"\b[0-9a-f]{16}\b")
UNITS = "/etc/systemd/system/"
DROP_IN = "remove drop-in "
DIFF_INDENT = 10

Row = Mapping[str, Any]


class Marks:
    """Reasons -> `[1]` for those that the page has listed, or themselves."""

    def __init__(self, fields: Sequence[Row]) -> None:
        self._numbers = {row["text"]: number for number, row in enumerate(fields, 1)}

    def of(self, reasons: Sequence[Row]) -> str:
        numbers = [self._numbers[r["text"]] for r in reasons if r["text"] in self._numbers]
        others = [r for r in reasons if r["text"] not in self._numbers]
        words = [f"[{','.join(map(str, sorted(numbers)))}]"] if numbers else []
        lines = [told(r) for r in others if r["field"]]
        words += [f"for {', '.join(lines)}"] if lines else []
        return " ".join([*words, *(r["text"] for r in others if not r["field"])])


def told(reason: Row) -> str:
    """`serving.decoders (cluster.yaml:10)`"""
    return f"{reason['text']} ({reason['where']})" if reason["where"] else str(reason["text"])


def show_changes(document: Row, page: Page, marks: Marks, *, diffs: bool) -> None:
    page.heading("Changes:")
    shown: dict[tuple[Any, ...], str] = {}
    host = ""
    for (where, owner), rows in _groups(document["changes"]):
        if where != host:
            host = where
            page.line((host, "bold"), indent=2)
        seen = _signature(owner, rows)
        same = shown.setdefault(seen, f"{owner} on {host}") if owner and seen else ""
        _group(owner, rows, page, marks, same if same != f"{owner} on {host}" else "", diffs=diffs)
    page.gap()


def name(resource_id: str) -> str:
    kind, rest = resource_id.split(":", 1)
    return f"{kind} {rest}"


def _groups(changes: Sequence[Row]) -> Iterator[tuple[tuple[str, str], list[Row]]]:
    """By host and instance, in the order of the document; what is the host's own comes first."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in changes:
        found.setdefault((row["host"], row["instance"]), []).append(row)
    hosts = list(dict.fromkeys(host for host, _ in found))
    yield from sorted(found.items(), key=lambda item: (hosts.index(item[0][0]), item[0][1]))


def _group(owner: str, rows: list[Row], page: Page, marks: Marks, same: str, *, diffs: bool) -> None:
    actions = {row["action"] for row in rows}
    common = _common(rows)
    drifted = all(row["drift"] for row in rows)  # each of them says so
    why = marks.of(common) if common is not None and not drifted else ""
    if len(actions) == 1 and actions <= WHOLE.keys() and not any(row["drift"] for row in rows):
        action = actions.pop()
        _whole(owner, rows, page, why, action)
        return
    head: list[Part] = [owner or "the host"]
    head += [(f"  {why}", "dim")] if why else []
    head += [(f"  the same as {same}", "dim")] if same else []
    page.line(*head, indent=4)
    for row in rows if not same else ():
        _row(row, page, "" if why or row["drift"] else marks.of(row["reasons"]), diffs=diffs)


def _whole(owner: str, rows: list[Row], page: Page, why: str, action: str) -> None:
    """All of it comes or goes: what it is made of, in one line."""
    parts = ", ".join(_short(row["id"]) for row in rows)
    title = f"{owner or 'the host'}" + ("" if action == "create" else f"  {WHOLE[action]}")
    page.line(_symbol(action), title, (f"  {why}" if why else "", "dim"), indent=4)
    page.line((parts, "dim"), indent=8, hang=0)
    for row in rows:
        for word in row["why"]:
            if word.startswith(DROP_IN):  # somebody else's file goes as well
                page.line(_symbol(action), word, indent=6)


def _row(row: Row, page: Page, mark: str, *, diffs: bool) -> None:
    lines = hunks(row["diff"], page.room(DIFF_INDENT))
    why = [] if row["action"] == "create" and not row["drift"] else list(row["why"])
    if row["diff"] and not lines:
        why = ["revision" if word == "content" else word for word in why]
    why += ["drift"] if row["drift"] else []
    said = "; ".join(why)
    tail = "".join(f"  {words}" for words in (said, mark) if words)
    page.line(_symbol(row["action"]), name(row["id"]), (tail, "dim"), indent=6)
    for line in lines if diffs else ():
        page.line((line, DIFF_STYLE.get(line[:1], "dim")), indent=DIFF_INDENT, hang=2)


def _symbol(action: str) -> Part:
    symbol, style = SYMBOL[action]
    return f"{symbol} ", style


def _common(rows: Sequence[Row]) -> list[Row] | None:
    """The reasons, if all rows have the same."""
    first: list[Row] = rows[0]["reasons"]
    return first if all(row["reasons"] == first for row in rows) else None


def _short(resource_id: str) -> str:
    kind, rest = resource_id.split(":", 1)
    if kind == "unit":
        return "unit"
    if kind == "file":
        return "unit file" if rest.startswith(UNITS) else rest.rsplit("/", 1)[1]
    if kind in ("venv", "weights"):
        return rest.rsplit("/", 1)[1]
    return f"{rest}/" if kind == "directory" else f"{kind} {rest}"


def _signature(owner: str, rows: Sequence[Row]) -> tuple[Any, ...]:
    """What is done, whoever it is done to; empty where repeating it is as short."""
    if len(rows) < 2 and not any(row["diff"] for row in rows):
        return ()
    return tuple(
        (_plain(owner, row["id"]), row["action"], tuple(row["why"]), row["drift"], *_lines(owner, row))
        for row in rows
    )


def _lines(owner: str, row: Row) -> Iterator[str]:
    """What differs inside the changed lines: the rest of them is each instance's own."""
    yield from (_plain(owner, line) for line in hunks(row["diff"], 0) if line[:1] in "+-")
    yield from (reason["text"] for reason in row["reasons"])


def _plain(owner: str, text: str) -> str:
    return REVISION.sub("<revision>", text.replace(owner, "<instance>"))
