"""Every rule has an id that stays, says why and how to mend it, and finds its own example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pdctl.spec.load import inspect
from pdctl.spec.rules.about import About
from pdctl.spec.rules.page import rules_page
from pdctl.spec.rules.table import FAMILIES, TABLE
from pdctl.topology.judge import judge
from tests.spec.breaking import WITHOUT_EXAMPLE, broken_by

ROOT = Path(__file__).parents[2]
IDS = Path(__file__).with_name("rule_ids.txt")
SOURCES = [
    path
    for folder in ("spec", "topology", "knowledge", "parts", "desired", "hosts")
    for path in (ROOT / "pdctl" / folder).rglob("*.py")
    if "about" not in path.parts
]


def listed() -> str:
    """One line a rule: what a user may have written into a spec or a pipeline."""
    return "".join(
        f"{rule.id} {rule.severity}{' suppressible' if rule.suppressible else ''}\n"
        for rule in sorted(TABLE.values())
    )


def test_ids_stay(request: pytest.FixtureRequest) -> None:
    """Specs and pipelines name them: a line of the golden file may be added, not changed or removed."""
    if request.config.getoption("--accept", default=False):
        IDS.write_text(listed())
    assert IDS.read_text() == listed()


def test_the_page_is_current(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "rules.md"
    if request.config.getoption("--accept", default=False):
        page.write_text(rules_page())
    assert page.read_text() == rules_page()


@pytest.mark.parametrize("rule", TABLE.values(), ids=lambda rule: rule.id)
def test_a_rule_finds_its_own_example(rule: About) -> None:
    if rule.id in WITHOUT_EXAMPLE:
        assert not rule.example
        return
    judged = judge(inspect(broken_by(rule), "c.yaml"))
    found = {each.rule for each in (*judged.errors, *judged.warnings)}
    assert rule.id in found
    if rule.severity == "warning":
        assert not judged.errors


@pytest.mark.parametrize("rule", TABLE.values(), ids=lambda rule: rule.id)
def test_a_rule_speaks_in_sentences(rule: About) -> None:
    assert re.fullmatch(r"[A-Z]+\d{3}", rule.id)
    assert rule.title[0].isupper() or rule.title[0] == "`"
    assert len(rule.title) <= 100 and not rule.title.endswith(".")
    assert rule.why.endswith(".") and rule.mend.endswith(".")


def test_ids_are_unique_and_numbered_without_gaps() -> None:
    ids = [rule.id for family in FAMILIES.values() for rule in family]
    assert len(ids) == len(set(ids))
    for family in {rule[:-3] for rule in ids}:
        numbers = sorted(int(rule[-3:]) for rule in ids if rule[:-3] == family)
        assert numbers == list(range(1, len(numbers) + 1)), family


def test_the_code_uses_every_id_and_no_other() -> None:
    used = {
        rule
        for path in SOURCES
        for rule in re.findall(r'"([A-Z]+\d{3})"', path.read_text())
        if rule.rstrip("0123456789") in {known.rstrip("0123456789") for known in TABLE}
    }
    assert used == set(TABLE)


def test_errors_that_make_a_cluster_impossible_cannot_be_suppressed() -> None:
    free = {rule.id for rule in TABLE.values() if rule.suppressible and rule.severity == "error"}
    assert free == {
        "ARG006",
        "ARG007",
        "ARG009",
        "ARG010",
        "ARG011",
        "DRIVER003",
        "ENV004",
        "FACT007",
        "FACT009",
        "FACT012",
        "FACT022",
        "FACT024",
        "FACT028",
        "FACT029",
        "FACT031",
        "FACT035",
        "FACT036",
        "FACT037",
        "FACT038",
        "FACT013",
        "FACT014",
        "ENV005",
        "MATCH005",
        "MEM001",
        "MEM003",
        "MODEL004",
        "MODEL007",
        "NET001",
        "NET003",
        "NIC008",
        "PIN005",
        "PORT006",
        "PORT007",
        "SECRET005",
        "USE005",
    }
