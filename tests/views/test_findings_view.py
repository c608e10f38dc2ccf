"""Findings for machines: SARIF that a reader of the standard takes, and commands that GitHub reads right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from pdctl.errors import Place, SpecError
from pdctl.spec.load import inspect
from pdctl.spec.rules.table import TABLE
from pdctl.topology.judge import Judgement, judge, judge_file
from pdctl.views.findings import github_commands, sarif
from tests.spec.breaking import broken_by

CASES = sorted((Path(__file__).parents[1] / "cases" / "spec").glob("*.yml"))


def text(required: bool = True) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["text"] if required else [],
        "properties": {"text": {"type": "string"}},
    }


def object_of(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


LEVEL = {"enum": ["none", "note", "warning", "error"]}
# The parts of the standard's schema (OASIS SARIF 2.1.0, 3.13 to 3.52) that these documents use; other
# properties than those named here are none that we write.
SARIF = object_of(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs={
        "type": "array",
        "items": object_of(
            ["tool"],
            tool=object_of(
                ["driver"],
                driver=object_of(
                    ["name"],
                    name={"type": "string"},
                    version={"type": "string"},
                    rules={
                        "type": "array",
                        "uniqueItems": True,
                        "items": object_of(
                            ["id"],
                            id={"type": "string"},
                            shortDescription=text(),
                            fullDescription=text(),
                            help=text(),
                            defaultConfiguration=object_of([], level=LEVEL),
                        ),
                    },
                ),
            ),
            columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
            results={
                "type": "array",
                "items": object_of(
                    ["message"],
                    ruleId={"type": "string"},
                    ruleIndex={"type": "integer", "minimum": -1},
                    level=LEVEL,
                    message=text(),
                    locations={
                        "type": "array",
                        "items": object_of(
                            [],
                            physicalLocation=object_of(
                                [],
                                artifactLocation=object_of(
                                    [], uri={"type": "string", "format": "uri-reference"}
                                ),
                                region=object_of(
                                    [],
                                    startLine={"type": "integer", "minimum": 1},
                                    startColumn={"type": "integer", "minimum": 1},
                                ),
                            ),
                            logicalLocations={
                                "type": "array",
                                "items": object_of(
                                    [], fullyQualifiedName={"type": "string"}, kind={"type": "string"}
                                ),
                            },
                        ),
                    },
                    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
                    suppressions={
                        "type": "array",
                        "uniqueItems": True,
                        "items": object_of(
                            ["kind"],
                            kind={"enum": ["inSource", "external"]},
                            justification={"type": "string"},
                        ),
                    },
                ),
            },
        ),
    },
)
VALIDATOR = jsonschema.Draft7Validator(SARIF)


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_every_case_is_sarif(case: Path) -> None:
    judged = judge(inspect(case.read_bytes(), "clusters/my chat/cluster.yaml"))
    document = sarif(judged)
    VALIDATOR.validate(document)
    [run] = document["runs"]
    count = len(judged.errors) + len(judged.warnings) + len(judged.suppressed)
    assert len(run["results"]) == count
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert " " not in uri and unquote(uri) == "clusters/my chat/cluster.yaml"


def test_a_suppressed_finding_is_there_with_its_reason() -> None:
    spec = broken_by(TABLE["PORT005"]) + "suppress: [{rule: PORT005, reason: moved range}]\n"
    judged = judge(inspect(spec, "c.yaml"))
    assert judged.topology is not None and not judged.warnings
    [result] = sarif(judged)["runs"][0]["results"]
    assert result["suppressions"] == [{"kind": "inSource", "justification": "moved range"}]
    assert github_commands(judged) == ""


def test_a_finding_keeps_its_fingerprint_when_lines_move() -> None:
    spec = broken_by(TABLE["PORT005"])
    here, there = (
        sarif(judge(inspect(text, "c.yaml")))["runs"][0]["results"][0] for text in (spec, f"\n# x\n{spec}")
    )
    assert here["partialFingerprints"] == there["partialFingerprints"]
    assert here["locations"] != there["locations"]


def test_a_file_that_cannot_be_read_is_a_finding_without_a_line(tmp_path: Path) -> None:
    judged = judge_file(tmp_path / "no.yaml")
    document = sarif(judged)
    VALIDATOR.validate(document)
    place = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].startswith("file:///") and "region" not in place
    assert github_commands(judged).startswith(
        f"::error file={tmp_path}/no.yaml,title=FILE001::does not exist"
    )


COMMAND = re.compile(r"::(error|warning) ([^\n:]*)::([^\n]*)\n")


def read(line: str) -> tuple[str, dict[str, str], str]:
    """As the runner reads a command: properties first, then data, each unescaped."""
    match = COMMAND.fullmatch(line)
    assert match, line
    named = dict(part.split("=", 1) for part in match[2].split(","))
    pairs = {name: unescaped(value, {"%3A": ":", "%2C": ","}) for name, value in named.items()}
    return match[1], pairs, unescaped(match[3], {})


def unescaped(text: str, more: dict[str, str]) -> str:
    for code, sign in {**more, "%0A": "\n", "%0D": "\r", "%25": "%"}.items():
        text = text.replace(code, sign)
    return text


def test_a_command_for_github_is_read_back_as_the_finding() -> None:
    error = SpecError(
        "100%: a,b::c\r\n::error::forged",
        where=Place("a:b,c 50%.yaml", 3, 7, "serving"),
        hint="no\nline",
        rule="PORT003",
    )
    line = github_commands(Judgement("x", None, (error,)))
    assert line.count("\n") == 1
    kind, named, data = read(line)
    assert kind == "error"
    assert named == {"file": "a:b,c 50%.yaml", "line": "3", "col": "7", "title": "PORT003"}
    assert data == "serving: 100%: a,b::c\r\n::error::forged; no\nline"


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_every_case_is_commands_for_github(case: Path) -> None:
    judged = judge(inspect(case.read_bytes(), "c.yaml"))
    lines = github_commands(judged).splitlines(keepends=True)
    assert len(lines) == len(judged.errors) + len(judged.warnings)
    for line in lines:
        assert read(line)[1]["file"] == "c.yaml"
