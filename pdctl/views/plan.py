"""The plan's JSON document -> text for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from pdctl.views.changes import SYMBOL, Marks, name, show_changes
from pdctl.views.page import Page

Document = Mapping[str, Any]
OLDER = "runs with an older configuration"
ALLOW = (
    "`pdctl apply --allow-reboot`, or serving.rollout.allow_reboot, has it rebooted: drained, one host after"
    " the other"
)
# A rollout over hundreds of instances is one batch after the other: its beginning and its end tell it.
MOST_STEPS, FIRST_STEPS, LAST_STEPS = 24, 12, 4


def show_plan(document: Document, console: Console, *, diffs: bool = True) -> None:
    """What is not as it was left, what the spec asks for, what is done to whom and in which order; at the end
    in how much and how long."""
    page, marks = Page(console), Marks(document["fields"])
    _drift(document, page)
    _targets(document["targets"], page)
    _fields(document, page)
    if document["changes"]:
        show_changes(document, page, marks, diffs=diffs)
    asked = any(row["unproven"] for row in document["drift"])
    if document["steps"] and (document["changes"] or document["restarts"] or asked):
        _steps(document, page, marks)
    _aftermath(document, page)
    _unreachable(document, page)
    page.line(summary(document), hang=0)
    radius = document["radius"]
    if radius and (document["changes"] or document["restarts"]):
        page.line((radius["text"][:1].upper() + radius["text"][1:], "bold"), hang=0)


def _aftermath(document: Document, page: Page) -> None:
    """What follows on hosts from what is changed there."""
    for row in document["effects"]:
        because = "an interrupted apply has left it out" if row["owed"] else "it changes"
        page.line(
            ("> ", "yellow"), f"{row['host']}: {row['command']}", (f"  {row['path']}: {because}", "dim")
        )
    _reboots(document, page)
    if document["effects"] or document["reboots"]:
        page.gap()


def _reboots(document: Document, page: Page) -> None:
    kernels = {row["host"]: row["what"] for row in document["foreign"] if row["kind"] == "kernel"}
    for row in document["reboots"]:
        what = f"{row['package']} {row['change']}".strip()
        verb = "reboots" if row["now"] else "needs a reboot"
        color = "yellow" if row["now"] else "red"
        page.line(("! ", color), f"{row['host']} {verb}: {what}; {row['why']}")
    for host, row in {row["host"]: row for row in document["reboots"] if not row["now"]}.items():
        if row["refused"]:
            page.line(("! ", "red"), f"{host} is not rebooted: {row['refused']}", indent=2)
        elif host in kernels:
            page.line(("! ", "red"), f"do not reboot {host} before this: {kernels[host]}", indent=2)
    if any(not row["now"] and not row["refused"] for row in document["reboots"]):
        page.line(("> ", "yellow"), ALLOW, indent=2)


def show_drift(document: Document, console: Console) -> None:
    """The document of `diff --drift-only`."""
    page = Page(console)
    _drift(document, page)
    _unreachable(document, page)
    foreign = len(document["foreign"])
    words = _drifted(document["drift"])
    words += [f"{foreign} more to look at"] if foreign else []
    left_out = " on the hosts that answered" if document["unreachable"] else ""
    page.line(f"`{document['cluster']}`: {', '.join(words) or f'nothing changed outside pdctl{left_out}'}")


def summary(document: Document) -> str:
    """One line: what would be done, or that there is nothing to do."""
    cluster, targets = document["cluster"], document["targets"]
    only = f" within {targets['text']}" if targets else ""
    if document["empty"]:
        left_out = " on the hosts that answered" if document["unreachable"] else ""
        if document["goal"] == "nothing":
            return f"Nothing to do{left_out}: nothing of `{cluster}` is there"
        return f"Nothing to do{left_out}{only}: `{cluster}` is as {document['goal']} says"
    counts = {what: sum(c["action"] == what for c in document["changes"]) for what in SYMBOL}
    words = [f"{n} to {what}" for what, n in counts.items() if n]
    words += [f"{len(document['restarts'])} to restart"] if document["restarts"] else []
    words += _drifted(document["drift"])
    waiting = len(
        {row["host"] for row in document["foreign"] if row["kind"] == "reboot"}
        | {row["host"] for row in document["reboots"]}
    )
    words += [f"{waiting} to reboot"] if waiting else []
    return f"Plan for `{cluster}`{only}: {', '.join(words) or 'only the record has to be renewed'}"


def _drifted(rows: list[Document]) -> list[str]:
    asked = sum(row["unproven"] for row in rows)
    words = [f"{len(rows) - asked} drifted"] if len(rows) > asked else []
    return words + ([f"{asked} to ask for health"] if asked else [])


def _drift(document: Document, page: Page) -> None:
    headings = {
        False: "Changed outside pdctl since the last apply:",
        True: "Left unfinished by the last apply:",
    }
    for unproven, heading in headings.items():
        if rows := [row for row in document["drift"] if row["unproven"] == unproven]:
            page.heading(heading)
            for row in rows:
                what = (f"  {'; '.join(row['what'])}", "dim")
                page.line(("! ", "magenta"), f"{row['host']}  {name(row['id'])}", what, indent=2)
            page.gap()
    if document["foreign"]:
        page.heading("Also seen, and left as it is:")
        for row in document["foreign"]:
            page.line(("! ", "magenta"), f"{row['host']}  {row['what']}", indent=2)
        page.gap()


def _targets(targets: Document | None, page: Page) -> None:
    if not targets or not (targets["pulled"] or targets["held"]):
        return
    page.heading(f"Beyond {targets['text']}:")
    for row in targets["pulled"]:
        who = f"{row['instance'] or _ids(row['ids'])} on {row['host']}"
        page.line(("+ ", "green"), f"{who} comes along: ", (row["because"], "dim"), indent=2)
    for row in targets["held"]:
        page.line(
            ("= ", "dim"), f"{_ids(row['ids'])} on {row['host']} stays: ", (row["because"], "dim"), indent=2
        )
    page.gap()


def _ids(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - 2} more" if len(ids) > 2 else ""
    return ", ".join(map(name, ids[:2])) + more


def _fields(document: Document, page: Page) -> None:
    if not document["fields"]:
        return
    page.heading(f"The spec since {document['since'] or 'the last apply'}:")
    for number, row in enumerate(document["fields"], 1):
        idle = "; no host is told of it" if row["idle"] else ""
        page.line(f"[{number}] {row['text']}", (f"  ({row['where']}{idle})", "dim"), indent=2)
    page.gap()


def _steps(document: Document, page: Page, marks: Marks) -> None:
    page.heading("Order:")
    restarts = {(row["host"], f"unit:{row['unit']}"): row for row in document["restarts"]}
    numbered = list(enumerate(document["steps"], 1))
    long = len(numbered) > MOST_STEPS
    for number, step in numbered[:FIRST_STEPS] if long else numbered:
        _step(number, step, restarts, page, marks)
    if long:
        between = numbered[FIRST_STEPS:-LAST_STEPS]
        outages = sum(bool(step["outage"]) for _, step in between)
        away = f", {outages} of them with an outage" if outages else ""
        page.line((f"... {len(between)} more steps like these{away} ...", "dim"), indent=5)
        for number, step in numbered[-LAST_STEPS:]:
            _step(number, step, restarts, page, marks)
    page.gap()


def _step(
    number: int, step: Document, restarts: Mapping[tuple[str, str], Document], page: Page, marks: Marks
) -> None:
    hosts = list(dict.fromkeys([*step["reboots"], *(r["host"] for r in step["resources"])]))
    shown = ", ".join(hosts[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")
    time = f"  {step['time']}" if step["time"] else ""
    where = "" if step["kind"] == "reboot" else f" ({shown})"  # its title names them
    page.line(f"{number}. {step['title']}{where}", (time, "dim"), indent=2, hang=3)
    if step["outage"]:
        page.line(("! ", "red"), step["outage"], indent=5)
    for resource in step["resources"]:
        row = restarts.get((resource["host"], resource["id"]))
        if row and row["instance"] in step["restarts"]:
            _restart(row, page, marks)


def _restart(row: Document, page: Page, marks: Marks) -> None:
    """Files that the page has shown already are no news where a line of the spec is named."""
    mark = marks.of(row["reasons"])
    news = [cause for cause in row["causes"] if not mark or not (cause.startswith("/") or cause == OLDER)]
    news = news if len(news) < 3 else [news[0], f"{len(news) - 1} more causes like it"]
    causes = f"  because {'; '.join(f'of {c}' if c.startswith('/') else c for c in news)}" if news else ""
    page.line(
        ("↻ ", "yellow"),
        f"{row['instance']} on {row['host']}",
        (f"  {mark}" if mark else "", "dim"),
        (causes, "dim"),
        indent=5,
    )


def _unreachable(document: Document, page: Page) -> None:
    for host, reason in document["unreachable"].items():
        page.line(("! ", "red"), f"{host} was left out: {reason}")
