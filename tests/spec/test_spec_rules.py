"""Every rule reads what it says it reads, has a case that breaks it, and stays quiet on valid specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdctl.errors import ErrorGroup, SpecError
from pdctl.knowledge.stacks import STACKS
from pdctl.spec.compose import compose
from pdctl.spec.load import parse
from pdctl.spec.locate import plain
from pdctl.spec.model import Cluster, Stack
from pdctl.spec.rules import RULES, arguments, findings
from pdctl.spec.rules.rule import Rule
from pdctl.spec.rules.table import TABLE
from pdctl.spec.source import source
from tests.spec.breaking import broken_by

CASES = sorted((Path(__file__).parents[1] / "cases" / "spec").glob("*.yml"))


def well_shaped() -> list[Cluster]:
    """The specs of the cases and of the rules' examples that the model takes, whatever the rules say."""
    found = []
    texts = [case.read_text() for case in CASES] + [broken_by(rule) for rule in TABLE.values()]
    for text in texts:
        try:
            root = compose(source(text, "c.yaml")).root
            found.append(Cluster.model_validate(plain(root) if root else None))
        except (ValueError, SpecError):
            continue
    return found


CLUSTERS = well_shaped()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__name__)
def test_a_rule_reads_only_what_it_declares(rule: Rule) -> None:
    assert rule.reads <= set(Cluster.model_fields)
    for cluster in CLUSTERS:
        declared = {name: getattr(cluster, name) for name in rule.reads}
        partial = Cluster.model_construct(**declared)
        for name in set(Cluster.model_fields) - rule.reads:
            partial.__dict__.pop(name, None)  # model_construct filled in the defaults
        assert list(rule.check(partial)) == list(rule.check(cluster))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__name__)
def test_a_rule_has_a_case_that_breaks_it(rule: Rule) -> None:
    assert any(list(rule.check(cluster)) for cluster in CLUSTERS)


def test_paths_of_findings_exist_in_the_model() -> None:
    for cluster in CLUSTERS:
        for finding in findings(cluster):
            current: object = cluster
            for step in finding.path:
                current = current[step] if isinstance(current, list | dict) else getattr(current, str(step))


def test_rules_that_read_a_broken_section_are_left_out() -> None:
    everything = frozenset(Cluster.model_fields)
    assert not [finding for cluster in CLUSTERS for finding in findings(cluster, everything)]


def test_shipped_stacks_are_valid_pins() -> None:
    for pins in STACKS.values():
        Stack.model_validate(dict(pins))


@pytest.mark.parametrize("flag", arguments.OWNED)
@pytest.mark.parametrize("spelling", ["{}", "{}=1", "{}.key", "{} 1"])
def test_pdctls_flags_are_known_in_every_spelling(flag: str, spelling: str) -> None:
    assert arguments.owned(spelling.format(flag)) == flag
    assert arguments.owned(spelling.format("--" + flag[2:].replace("-", "_"))) == flag


@pytest.mark.parametrize(
    "word",
    [
        "--seed",
        "--kv-cache-dtype=fp8",
        "9000",
        "--tokenizer",
        "--config-format",
        "--hf-overrides",
        "-q",
        "--",
    ],
)
def test_other_words_pass(word: str) -> None:
    assert arguments.owned(word) is None


def test_count_may_be_left_out_beside_a_placement() -> None:
    text = "cluster: a\nhosts: [{name: h, gpus: 4}]\nmodel: {id: a/b}\nserving:\n  prefillers: {}\n"
    cluster = parse(text + "  decoders: {placement: [h, h, h]}\n", "c.yaml")
    assert cluster.serving.decoders is not None and cluster.serving.decoders.count == 3
    with pytest.raises(ErrorGroup, match="1 error"):
        parse(text + "  decoders: {count: 2, placement: [h, h, h]}\n", "c.yaml")
