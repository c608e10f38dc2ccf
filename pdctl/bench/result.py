"""Result record <-> file: written whole or not at all; read only when it can be believed."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdctl.bench.answer import one_line
from pdctl.bench.stats import distinct_errors
from pdctl.errors import BenchError

_SHOWN_ERRORS = 3


@dataclass(frozen=True)
class ForeignResult:
    """A result file of vLLM's bench or ours: its counts judged, the rest as it stands in the file."""

    path: Path
    num_prompts: int
    completed: int
    failed: int
    errors: tuple[str, ...]
    fields: Mapping[str, Any]

    def metric(self, name: str) -> float | None:
        """A number of the file; None when absent, and for every latency of a run that completed nothing."""
        value = self.fields.get(name)
        known = isinstance(value, int | float) and not isinstance(value, bool)
        # with nothing completed, vLLM writes 0.0 for latencies: no record, but no value
        return (
            float(value)
            if known and value is not None and (self.completed or not name.endswith("_ms"))
            else None
        )


def write_result(path: Path, record: Mapping[str, Any]) -> None:
    """Temp file, fsync, rename: a reader sees the old file, the new one, or none."""
    # allow_nan=False: NaN and Infinity are no JSON, and no measurement either
    text = json.dumps(record, allow_nan=False, indent=1) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise BenchError(f"the result cannot be written: {error.strerror}", where=str(path)) from error


def read_result(path: Path) -> ForeignResult:
    """Refuse what is missing, cut short, not finite or not counted."""
    fields = _parsed(path)
    num_prompts, completed = _count(fields, "num_prompts", path), _count(fields, "completed", path)
    # vLLM 0.11.0 writes no `failed`
    failed = _count(fields, "failed", path) if "failed" in fields else num_prompts - completed
    if not num_prompts or failed != num_prompts - completed or failed < 0:
        raise BenchError(
            f"the counts do not add up: num_prompts {num_prompts}, completed {completed}, failed {failed}",
            where=str(path),
        )
    errors = fields.get("errors")
    texts = tuple(one_line(str(error)) for error in errors if error) if isinstance(errors, list) else ()
    return ForeignResult(path, num_prompts, completed, failed, texts, fields)


def require_success(
    num_prompts: int, completed: int, errors: Iterable[str], tolerated: int = 0, where: str | None = None
) -> None:
    """Success is the completed count against the request count, never a return code."""
    if completed and num_prompts - completed <= tolerated:
        return
    counted = [f"{count} x {error}" for error, count in distinct_errors(errors)]
    shown = counted[:_SHOWN_ERRORS] + (["..."] if len(counted) > _SHOWN_ERRORS else [])
    message = f"completed {completed} of {num_prompts} requests ({tolerated} failures tolerated)"
    raise BenchError("\n  ".join([message, *shown]), where=where)


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(handle, 0o644)
            os.fsync(handle)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BenchError(f"the result file cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise BenchError("the result file is no text", where=str(path)) from error
    if not text.strip():
        raise BenchError("the result file is empty", where=str(path))
    try:
        fields = json.loads(text, parse_constant=_not_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise BenchError(
            f"the result file is no valid JSON: {error}", where=str(path), hint=_hint(error)
        ) from error
    if not isinstance(fields, dict):
        raise BenchError("the result file holds no JSON object", where=str(path))
    return fields


def _not_finite(text: str) -> float:
    raise ValueError(f"{text} is no measurement")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _not_finite(text)


def _hint(error: Exception) -> str | None:
    appended = isinstance(error, json.JSONDecodeError) and error.msg == "Extra data"
    return "written with --append-result? give one of its lines as a file of its own" if appended else None


def _count(fields: Mapping[str, Any], name: str, path: Path) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BenchError(f"{name} should be a count, but is {one_line(repr(value))}", where=str(path))
    return value
