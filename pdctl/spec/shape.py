"""pydantic's complaints -> Findings in the user's words: the value as written and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from pdctl.spec.compose import Node
from pdctl.spec.fields import homes, section_at
from pdctl.spec.finding import Finding, Path
from pdctl.spec.locate import Found, find
from pdctl.spec.model import Cluster
from pdctl.spec.scalar import LONGEST_INT
from pdctl.spec.secrecy import shown

# The smallest valid value of each section that must be there.
STAND_INS: dict[str, Any] = {"cluster": "x", "hosts": [{"name": "x"}], "model": {"id": "x"}, "serving": {}}
KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "`true` or `false`",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
# Sections that a single value may stand for.
SHORT_FORMS = {
    "Gpus": "a whole number or a mapping",
    "Stack": "a name or a mapping",
    "Engine": "a name or a mapping",
    "Place": "a host name or a mapping",
}
RULES = {
    "TYPE005": ("literal_error",),
    "TYPE006": ("greater_than_equal", "less_than_equal", "greater_than"),
    "TYPE007": ("value_error",),
    "TYPE008": ("too_long", "string_too_long", "too_short", "string_too_short"),
}
# What `scalar` leaves as text.
HUGE = re.compile(rf"[-+]?[0-9]{{{LONGEST_INT - 1},}}|0x[0-9a-fA-F]{{17,}}|0o[0-7]{{19,}}")
# `32k`, as vLLM's own flags take it.
SHORT_NUMBER = re.compile(r"([0-9]{1,6}) ?([kKmMgG])i?[bB]?")
THOUSANDS = {"k": 2**10, "m": 2**20, "g": 2**30}
LIMITS = {"greater_than_equal": "at least", "less_than_equal": "at most", "greater_than": "more than"}
# YAML 1.1 took these for true and false.
OLD_BOOLS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
# What people call our keys elsewhere, where the spelling alone does not lead to them.
OTHER_CHOICES = {"gpu": "cuda", "pd": "disaggregated"}
OTHER_NAMES = {
    "tp": "tensor_parallel",
    "nodes": "hosts",
    "ip": "address",
    "replicas": "count",
    "args": "extra_args",
}


def findings(error: ValidationError, root: Node, limit: int) -> list[Finding]:
    """The first `limit` complaints in the order of the file, one Finding each."""
    items = error.errors(include_url=False, include_input=False)
    items.sort(key=lambda item: find(root, item["loc"]).node.offset)
    return [_finding(item["type"], item["loc"], item.get("ctx", {}), root) for item in items[:limit]]


def broken(error: ValidationError) -> frozenset[str]:
    """The top-level sections that pydantic complains about."""
    items = error.errors(include_url=False, include_input=False, include_context=False)
    return frozenset(str(item["loc"][0]) for item in items if item["loc"])


def rest(values: dict[str, Any], broken: frozenset[str]) -> Cluster:
    """A cluster of the sound sections, the others replaced, for the rules that do not look at those."""
    return Cluster.model_validate(
        STAND_INS
        | {key: value for key, value in values.items() if key in Cluster.model_fields and key not in broken}
    )


def _finding(kind: str, loc: Path, ctx: Mapping[str, Any], root: Node) -> Finding:
    if loc[-1:] == ("[key]",):
        return _bad_key(loc[:-1], ctx)
    if kind == "missing":
        return _missing(loc)
    if kind == "extra_forbidden":
        return _unknown(loc)
    found = find(root, loc)
    if loc[:1] == ("secrets",):
        return _secret(found.path)
    message, hint = _wrong(kind, ctx, found, loc)
    return Finding(_rule(kind, found.node), found.path, message, hint)


def _rule(kind: str, node: Node) -> str:
    """Which rule a complaint of pydantic's about a value stands for."""
    if kind == "string_type" and isinstance(node.value, bool | int | float):
        return "TYPE002"
    if kind in KINDS:
        return "TYPE001"
    return next((rule for rule, kinds in RULES.items() if kind in kinds), "TYPE001")


def _bad_key(path: Path, ctx: Mapping[str, Any]) -> Finding:
    return Finding(
        "TYPE009",
        path[:-1],
        f"{shown(str(path[-1]))} {ctx.get('error', 'is not allowed as a key')}",
        on_key=True,
    )


def _missing(loc: Path) -> Finding:
    section = section_at(loc[:-1])
    info = section.model_fields.get(str(loc[-1])) if section else None
    return Finding("TYPE003", loc[:-1], f"`{loc[-1]}` is missing", info.description if info else None)


def _unknown(loc: Path) -> Finding:
    key, section = str(loc[-1]), section_at(loc[:-1])
    allowed = list(section.model_fields) if section else []
    if loc[:1] == ("secrets",):  # the key may be the secret
        return Finding("TYPE004", loc[:2], "unknown key", f"allowed: {', '.join(allowed)}")
    odd = next((f" (with U+{ord(c):04X})" for c in key if not c.isascii()), "")
    hint = f"{_guess(key, allowed)}allowed: {', '.join(allowed)}"
    return Finding("TYPE004", loc, f"unknown key {shown(key)}{odd}", hint, on_key=True)


def _guess(key: str, allowed: list[str]) -> str:
    if len(key) > 40:
        return ""
    other = OTHER_NAMES.get(key.lower())
    close = [other] if other in allowed else get_close_matches(key.lower().replace("-", "_"), allowed, 1, 0.6)
    if close:
        return f"did you mean `{close[0]}`? "
    elsewhere = homes(key)[:3]
    return f"`{key}` belongs to {' or '.join(f'`{path}`' for path in elsewhere)}; " if elsewhere else ""


def _secret(path: Path) -> Finding:
    """Whatever is wrong below `secrets`, its value is not repeated."""
    name = path[1] if len(path) > 1 else "NAME"
    advice = f"write `{name}: {{from_env: VARIABLE}}` or `{name}: {{from_file: PATH}}`"
    if len(path) > 2:
        return Finding(
            "SECRET004",
            path,
            f"is not a valid {'name of a variable' if path[2] == 'from_env' else 'file'}",
            advice,
        )
    return Finding("SECRET004", path, "a secret never stands in this file, only where to find it", advice)


def _wrong(kind: str, ctx: Mapping[str, Any], found: Found, loc: Path) -> tuple[str, str | None]:
    node = found.node
    if kind in KINDS:
        return _wrong_kind(kind, node, loc)
    if kind in LIMITS:
        limit = next(iter(ctx.values()))
        return (
            f"must be {LIMITS[kind]} {limit if isinstance(limit, int) else f'{limit:g}'}, not {_what(node)}",
            None,
        )
    if kind == "literal_error":
        return _wrong_choice(str(ctx["expected"]), node)
    if kind == "value_error":
        text = str(ctx["error"])
        return (text if text.startswith("must") else f"{shown(node.text)} {text}"), None
    if kind in ("too_long", "string_too_long"):
        unit = "characters" if kind == "string_too_long" else "entries"
        return f"is longer than {ctx['max_length']} {unit}", None
    if kind in ("too_short", "string_too_short"):
        return "must not be empty", "write a value, or remove the key"
    return f"{_what(node)} is not allowed here", None


def _wrong_kind(kind: str, node: Node, loc: Path) -> tuple[str, str | None]:
    value, section = node.value, section_at(loc) if kind == "model_type" else None
    wanted = SHORT_FORMS.get(section.__name__, "a mapping") if section else KINDS[kind]
    if value is None:
        return f"has no value; it must be {wanted}", "write one, or remove the key"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return _number_for_text(node), None
    if isinstance(value, str) and not node.quoted and HUGE.fullmatch(node.text):
        return f"{shown(node.text)} is beyond any number that may stand here", None
    hint = f"its keys: {', '.join(section.model_fields)}" if section else None
    if kind == "bool_type" and node.text.lower() in OLD_BOOLS:
        hint = f"`{node.text}` is text in YAML 1.2; write `{OLD_BOOLS[node.text.lower()]}`"
    elif kind == "list_type":
        hint = "write each entry on a line of its own after `- `, or all in `[...]`"
    elif wanted == "a whole number" and (short := SHORT_NUMBER.fullmatch(node.text)):
        hint = f"write it out: {int(short[1]) * THOUSANDS[short[2].lower()]}"
    elif "number" in wanted and node.quoted:
        hint = "write it without quotes"
    return f"must be {wanted}, not {_what(node)}", hint


def _number_for_text(node: Node) -> str:
    if isinstance(node.value, bool):
        return f'{node.text} is read as true or false; write "{node.text}"'
    changed = "" if str(node.value) == node.text else f"the number {node.value}"
    return f'{node.text} is read as {changed or "a number"}; write "{node.text}"'


def _wrong_choice(expected: str, node: Node) -> tuple[str, str | None]:
    choices = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
    other = OTHER_CHOICES.get(node.text.lower())
    close = [other] if other in choices else get_close_matches(node.text[:40].lower(), choices, 1)
    return (
        f"must be {' or '.join(f'`{choice}`' for choice in choices)}, not {_what(node)}",
        f"did you mean `{close[0]}`?" if close else None,
    )


def _what(node: Node) -> str:
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "a list"
    if node.value is None:
        return "nothing"
    return f"the text {shown(node.text)}" if node.quoted else shown(node.text)
