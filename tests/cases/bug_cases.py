"""Cases from bug reports of such stacks: what pdctl must find in a spec, or render from it.

Each file in `bugs/` is one case; `python -m tests.cases.bug_cases` prints a table of all of them. `checks`
hold parts of a spec in place of those of a sound one, with what is found (`finds`: every error and warning,
no more) and what a host would see (`renders`). `held_by` names tests elsewhere that hold a part which no file
can show; `missing` says what is not there yet.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pdctl.desired import desire
from pdctl.errors import SpecError
from pdctl.spec.load import inspect
from pdctl.state import Package
from pdctl.topology.judge import Judgement, judge
from tests.desired.rendered import Engine, Rendered, read
from tests.spec.breaking import sound_but_for

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "bugs"


@dataclass(frozen=True)
class Case:
    """One report. `kind`: V is found in a spec, R is rendered; the other letters are held elsewhere."""

    id: str
    title: str
    kind: str
    source: str
    checks: tuple[Mapping[str, Any], ...]
    held_by: tuple[str, ...]
    missing: tuple[Mapping[str, str], ...]


def cases() -> list[Case]:
    return [case_in(path) for path in sorted(FOLDER.glob("*.yml"))]


def case_in(path: Path) -> Case:
    value = YAML(typ="safe", pure=True).load(path.read_text())
    unknown = set(value) - {"id", "title", "kind", "source", "checks", "held_by", "missing"}
    assert not unknown and value["id"] == path.stem, f"{path}: {unknown}"
    lists = {name: tuple(value.get(name, ())) for name in ("checks", "held_by", "missing")}
    return Case(value["id"], value["title"], value["kind"], value["source"], **lists)


def complaints(case: Case) -> Iterator[str]:
    """What does not hold; nothing when the case passes."""
    for check in case.checks:
        yield from (f"{check['name']}: {what}" for what in check_complaints(check))
    yield from (f"no test {name}" for name in case.held_by if not exists(name))


def check_complaints(check: Mapping[str, Any]) -> Iterator[str]:
    judged = judge(inspect(sound_but_for(check["spec"]), "cluster.yaml"))
    yield from found_complaints(check.get("finds", ()), judged)
    for wanted in check.get("renders", ()):
        if judged.topology is None:
            yield "nothing is rendered"
            return
        state = desire(judged.topology)
        packages = {r.name for r in state.values() if isinstance(r, Package)}
        yield from rendered_complaints(wanted, read(state), packages)


def found_complaints(wanted: tuple[Mapping[str, Any], ...], judged: Judgement) -> Iterator[str]:
    found = [*judged.errors, *judged.warnings]
    ids, expected = Counter(each.rule for each in found), Counter(row["rule"] for row in wanted)
    if ids != expected:
        yield f"found {[str(each) for each in found]}, expected {sorted(expected.elements())}"
        return
    for row in wanted:
        if not any(fits(row, each) for each in found if each.rule == row["rule"]):
            told = [f"{each} / {each.hint}" for each in found if each.rule == row["rule"]]
            yield f"{row} is not {told}"


def fits(row: Mapping[str, Any], error: SpecError) -> bool:
    text = f"{error.message} {error.hint}"
    place = error.place
    return (
        all(part in text for part in row.get("says", ()))
        and ("at" not in row or (place is not None and place.path == row["at"]))
        and ("line" not in row or (place is not None and place.line == row["line"]))
        and row.get("severity", error.severity) == error.severity
    )


def rendered_complaints(wanted: Mapping[str, Any], found: Rendered, packages: set[str]) -> Iterator[str]:
    if "engine" in wanted:
        yield from engine_complaints(wanted, found.engines[wanted["engine"]])
    if "proxy" in wanted:
        yield from differences("proxy", wanted["proxy"], found.proxy)
    for name in wanted.get("packages", ()):
        if name not in packages:
            yield f"package {name} is not there, only {sorted(packages)}"
    for name in wanted.get("no_packages", ()):
        yield from (f"package {each} is there" for each in packages if re.search(name, each))
    for name in wanted.get("distinct", ()):
        values = [engine.env.get(name) for engine in found.engines.values()]
        if len(set(values)) != len(values) or None in values:
            yield f"{name} is {values}"


def engine_complaints(wanted: Mapping[str, Any], engine: Engine) -> Iterator[str]:
    name = engine.name
    yield from differences(f"{name} env", wanted.get("env", {}), engine.env)
    yield from differences(f"{name} lmcache", wanted.get("lmcache", {}), engine.lmcache)
    yield from differences(f"{name} transfer", wanted.get("transfer", {}), engine.transfer or {})
    for section, keys in wanted.get("unit", {}).items():
        actual = {key: " ".join(engine.setting(section, key)) for key in keys}
        yield from differences(f"{name} [{section}]", keys, {k: v for k, v in actual.items() if v})
    for flag, value in wanted.get("flags", {}).items():
        if not same(value, engine.flag(flag)):
            yield f"{name} --{flag} is {engine.flag(flag)}, not {value}"
    words = list(wanted.get("argv", ()))
    if words and not any(engine.argv[i : i + len(words)] == words for i in range(len(engine.argv))):
        yield f"{name} has no words {words} in {engine.argv}"
    for word in wanted.get("no_argv", ()):
        yield from (f"{name} has {each}" for each in engine.argv if re.search(word, each))


def differences(where: str, wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[str]:
    for key, value in wanted.items():
        if isinstance(value, Mapping) and isinstance(actual.get(key), Mapping):
            yield from differences(f"{where} {key}", value, actual[key])
        elif not same(value, actual.get(key)):
            yield f"{where} {key} is {json.dumps(actual.get(key))}, not {json.dumps(value)}"


def same(wanted: Any, actual: Any) -> bool:
    """Equal; a text that begins with `~` is a regular expression, a mapping holds at least these keys."""
    if isinstance(wanted, str) and wanted.startswith("~"):
        return isinstance(actual, str) and re.search(wanted[1:], actual) is not None
    if isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        return all(same(a, b) for a, b in zip(wanted, actual, strict=True))
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        return all(same(value, actual.get(key)) for key, value in wanted.items())
    return bool(wanted == actual)


def exists(name: str) -> bool:
    """Whether `tests/x/test_y.py::test_z` is there."""
    path, _, function = name.partition("::")
    file = ROOT / path
    return (
        file.is_file()
        and re.search(rf"^(async )?def {function}\(", file.read_text(), re.MULTILINE) is not None
    )


def verdict(case: Case) -> str:
    if wrong := list(complaints(case)):
        return f"FAIL: {wrong[0]}"
    lacks = "; ".join(f"{row['what']} (needs {row['needs']})" for row in case.missing)
    if not case.checks and not case.held_by:
        return f"missing: {lacks}"
    return f"pass, but missing: {lacks}" if lacks else "pass"


def main() -> int:
    rows = [(case, verdict(case)) for case in cases()]
    for case, said in rows:
        print(f"{case.id}  {case.kind:<5}  {case.title[:72]:<72}  {said}")
    kinds = Counter(said.split(":")[0].split(",")[0] for _, said in rows)
    print(f"{len(rows)} cases: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    return 1 if kinds["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
