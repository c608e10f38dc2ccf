"""The table of rules -> docs/rules.md, and one rule as text."""

from __future__ import annotations

from pdctl.spec.rules.about import About
from pdctl.spec.rules.table import FAMILIES

INTRODUCTION = """\
# Rules

Written by `make golden` from `pdctl/spec/rules/about`; do not edit.

Every finding of `pdctl validate` carries the id of its rule; `pdctl explain PORT003` prints what stands here.
An id keeps its meaning for ever. Errors end with exit code 1. Warnings do not, but for `--strict`, with which
they end with 2.

A rule that is marked *may be suppressed* can be set aside for a whole cluster, with a reason for the next
reader:

```yaml
suppress:
  - {rule: PORT005, reason: the range starts at 50000 on these hosts}
```

Warnings may be suppressed. Of the errors only those may be with which pdctl can be wrong; the others describe
a cluster that could not be built or would serve wrong answers. A suppression that finds nothing is itself a
warning.
"""


def rules_page() -> str:
    """docs/rules.md"""
    parts = [INTRODUCTION]
    for family, rules in FAMILIES.items():
        parts.append(f"## {family}\n")
        parts += [_section(rule) for rule in rules]
    return "\n".join(parts)


def rule_text(rule: About) -> str:
    """One rule for a terminal."""
    lines = [f"{rule.id} ({kind(rule)}): {rule.title}", "", f"Why:  {rule.why}", f"Mend: {rule.mend}"]
    if rule.example:
        lines += ["", "For example:", "", *(f"    {line}" for line in _example(rule))]
    return "\n".join(lines)


def kind(rule: About) -> str:
    return rule.severity + (", may be suppressed" if rule.suppressible else "")


def _section(rule: About) -> str:
    parts = [f"### {rule.id}", "", f"**{rule.title}** ({kind(rule)})", "", rule.why, "", rule.mend]
    if rule.example:
        parts += ["", "```text", *_example(rule), "```"]
    return "\n".join([*parts, ""])


def _example(rule: About) -> list[str]:
    """Visible and short: what is cut is only more of the same."""
    lines = rule.example.rstrip("\n").splitlines()
    return [_visible(line if len(line) <= 200 else f"{line[:80]}...") for line in lines]


def _visible(line: str) -> str:
    return "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in line.replace("\t", "<tab>"))
