"""`pdctl explain`: what a field of the spec means, or a rule."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli.options import Json
from pdctl.errors import SpecError

if TYPE_CHECKING:
    from pdctl.spec.explain import Explanation
    from pdctl.spec.rules.about import About

Name = Annotated[
    str,
    typer.Argument(
        metavar="path|rule|stack",
        help="A field, e.g. serving.prefillers.count, a rule, e.g. PORT003, or a stack, e.g. article-2025;"
        " default: the file's keys.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(explain)


def explain(name: Name = "", json: Json = False) -> None:
    """Explain a field of the spec, a rule, or a shipped stack."""
    from pdctl.knowledge.stacks import STACKS, STACKS_ABOUT
    from pdctl.spec.explain import explain as explain_field
    from pdctl.spec.rules.page import rule_text
    from pdctl.spec.rules.table import TABLE
    from pdctl.views.console import print_json

    rule = TABLE.get(name.upper())
    field = None if rule or not name else explain_field(name)
    if name in STACKS:
        _show("\n".join(stack_lines(name)), stack_document(name), json)
    elif rule:
        _show(rule_text(rule), rule_document(rule), json)
    elif field:
        sets = (
            ["  sets", *(f"    {one:<13} {STACKS_ABOUT[one]}" for one in STACKS)]
            if field.path == "stack"
            else []
        )
        _show("\n".join([field_text(field), *sets]), field_document(field), json)
    elif name:
        raise _unknown(name)
    elif json:
        print_json({"format": "pdctl-explanation/1", "keys": dict(_top())})
    else:
        typer.echo("\n".join(f"{key:<12} {meaning}" for key, meaning in _top()))


def field_document(field: Explanation) -> dict[str, object]:
    return {"format": "pdctl-explanation/1", **asdict(field), "keys": dict(field.keys)}


def stack_document(name: str) -> dict[str, object]:
    from pdctl.knowledge.pairs import known_pairs
    from pdctl.knowledge.stacks import STACKS, STACKS_ABOUT

    pairs = [
        {
            "pair": [one, two],
            "status": verdict.status.value,
            "reason": verdict.reason,
            "source": verdict.source,
        }
        for one, two, verdict in known_pairs(STACKS[name])
    ]
    return {
        "format": "pdctl-stack/1",
        "name": name,
        "about": STACKS_ABOUT[name],
        "pins": dict(STACKS[name]),
        "pairs": pairs,
    }


def stack_lines(name: str) -> list[str]:
    """Pins, and how well each two of them are known to go together."""
    from pdctl.knowledge.pairs import known_pairs
    from pdctl.knowledge.stacks import STACKS, STACKS_ABOUT

    lines = [
        f"{name}: {STACKS_ABOUT[name]}",
        "",
        *(f"  {pin:<15} {v}" for pin, v in STACKS[name].items()),
        "",
    ]
    for one, two, verdict in known_pairs(STACKS[name]):
        why = f": {verdict.reason}" if verdict.reason else ""
        lines.append(f"  {f'{one} x {two}':<22} {verdict.status.value}{why} ({verdict.source})")
    return lines


def rule_document(rule: About) -> dict[str, object]:
    return {"format": "pdctl-rule/1", **rule._asdict()}


def field_text(field: Explanation) -> str:
    rows = [
        ("type", field.type),
        ("default", "none, it is required" if field.required else field.default),
        ("unit", field.unit),
        ("meaning", field.meaning),
    ]
    lines = [field.path, *(f"  {name:<9}{value}" for name, value in rows if value)]
    if field.rules:
        lines.append(f"  rules    {', '.join(field.rules)}")
    if field.keys:
        width = max(len(key) for key, _ in field.keys)
        lines += ["  keys", *(f"    {key:<{width}}  {meaning}" for key, meaning in field.keys)]
    return "\n".join([*lines, "  example", *(f"    {line}" for line in field.example.splitlines())])


def _show(text: str, document: dict[str, object], json: bool) -> None:
    from pdctl.views.console import print_json

    if json:
        print_json(document)
    else:
        typer.echo(text)


def _top() -> list[tuple[str, str]]:
    from pdctl.spec.explain import top

    return top()


def _unknown(name: str) -> SpecError:
    from difflib import get_close_matches

    from pdctl.spec.explain import nearest
    from pdctl.spec.rules.table import TABLE
    from pdctl.spec.secrecy import shown

    rules = get_close_matches(name.upper(), TABLE, 3)
    close = rules if name[-1:].isdecimal() and rules else nearest(name)
    hint = f"did you mean {', '.join(f'`{found}`' for found in close)}?" if close else None
    return SpecError(
        f"there is no field or rule {shown(name)}",
        hint=hint or "`pdctl explain` lists the keys, docs/rules.md the rules",
    )
