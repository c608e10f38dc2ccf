"""What was found in a spec, for machines: JSON, SARIF 2.1.0, and commands of GitHub's workflows."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pdctl import __version__
from pdctl.errors import Place, SpecError
from pdctl.spec.rules.about import About
from pdctl.spec.rules.table import TABLE
from pdctl.topology.judge import Judgement
from pdctl.views.console import error_document

Json = dict[str, Any]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def findings_document(judgement: Judgement) -> Json:
    """What does not stop the cluster: `warnings`, and what the file sets aside, with its reasons."""
    return {
        "warnings": [error_document(warning) for warning in judgement.warnings],
        "suppressed": [error_document(found) | {"reason": reason} for found, reason in judgement.suppressed],
    }


def github_commands(judgement: Judgement) -> str:
    """A line for each finding, which GitHub shows beside the line of the file."""
    return "".join(f"{_command(found)}\n" for found in (*judgement.errors, *judgement.warnings))


def sarif(judgement: Judgement) -> Json:
    """One run, with the rules that found something; suppressed findings are marked as such."""
    rows: list[tuple[SpecError, str | None]] = [
        *((found, None) for found in (*judgement.errors, *judgement.warnings)),
        *judgement.suppressed,
    ]
    ids = sorted({found.rule for found, _ in rows})
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "pdctl",
                        "version": __version__,
                        "rules": [_rule(TABLE[rule]) for rule in ids],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(found, reason, ids) for found, reason in rows],
            }
        ],
    }


def _rule(rule: About) -> Json:
    return {
        "id": rule.id,
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.mend},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(found: SpecError, reason: str | None, ids: list[str]) -> Json:
    place = found.place or Place(found.where or "")
    row: Json = {
        "ruleId": found.rule,
        "ruleIndex": ids.index(found.rule),
        "level": found.severity,
        "message": {"text": _sentence(found)},
        "locations": [_location(place)],
        "partialFingerprints": {"pdctl/v1": _fingerprint(found.rule, place)},
    }
    if reason is not None:
        row["suppressions"] = [{"kind": "inSource", "justification": reason}]
    return row


def _location(place: Place) -> Json:
    physical: Json = {"artifactLocation": {"uri": _uri(place.file)}}
    if place.line:
        physical["region"] = {"startLine": place.line, "startColumn": place.column}
    found: Json = {"physicalLocation": physical}
    if place.path:
        found["logicalLocations"] = [{"fullyQualifiedName": place.path, "kind": "member"}]
    return found


def _uri(name: str) -> str:
    path = Path(name)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _fingerprint(rule: str, place: Place) -> str:
    """The same as long as the rule finds the same key, wherever in the file it moves."""
    return hashlib.sha256(f"{rule} {place.path}".encode()).hexdigest()[:32]


def _sentence(found: SpecError) -> str:
    place = found.place.path if found.place else ""
    text = f"{place}: {found.message}" if place else found.message
    return f"{text}; {found.hint}" if found.hint else text


def _command(found: SpecError) -> str:
    place = found.place or Place(found.where or "")
    properties = {"file": place.file, "line": place.line, "col": place.column, "title": found.rule}
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value)
    return f"::{found.severity} {given}::{_data(_sentence(found))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
