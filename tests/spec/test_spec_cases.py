"""Every file in tests/cases/spec gives exactly the text beside it; without one it is valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdctl.errors import PdctlError
from pdctl.spec.load import inspect
from pdctl.topology.judge import judge

CASES = sorted((Path(__file__).parents[1] / "cases" / "spec").glob("*.yml"))


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_case(case: Path, request: pytest.FixtureRequest) -> None:
    told = outcome(case.read_bytes())
    expected = case.with_suffix(".err")
    if request.config.getoption("--accept", default=False):
        expected.unlink(missing_ok=True)
        if told:
            expected.write_text(told)
    assert told == (expected.read_text() if expected.exists() else "")


def test_there_are_cases_of_both_kinds() -> None:
    valid = [case for case in CASES if not case.with_suffix(".err").exists()]
    assert len(valid) > 5 and len(CASES) > 50


def outcome(raw: bytes) -> str:
    """What a user reads: errors with hints, then warnings; or nothing."""
    judged = judge(inspect(raw, "cluster.yaml"))
    errors = f"{judged.error().message}\n" + "".join(map(_lines, judged.errors)) if judged.errors else ""
    return errors + "".join(f"warning: {_lines(warning)}" for warning in judged.warnings)


def _lines(error: PdctlError) -> str:
    return f"{error}\n" + (f"  hint: {error.hint}\n" if error.hint else "")
