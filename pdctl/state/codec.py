"""Resources as JSON: what the probe answers, what the record keeps, what `--json` prints."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pdctl.state.model import KINDS, Resource, kind_of

# Not compared, and yet observed and recorded.
OBSERVED_TOO = ("invocation", "control", "ports", "repo", "given")


def resource_to_json(resource: Resource, *, full: bool = False) -> dict[str, Any]:
    """The fields that say what is true; with `full` also the means (never the value of a secret)."""
    out: dict[str, Any] = {"kind": kind_of(resource)}
    for f in fields(resource):
        value = getattr(resource, f.name)
        if f.compare or f.name in OBSERVED_TOO or full:
            out[f.name] = _json(value)
    return out


def resource_from_json(data: Mapping[str, Any]) -> Resource:
    """The inverse; unknown fields are ignored so that an older pdctl reads a newer record."""
    kind = KINDS[data["kind"]]
    known = {f.name for f in fields(kind)}
    return kind(**{k: _value(k, v) for k, v in data.items() if k in known})


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return [_json(v) for v in value]
    return value


def _value(name: str, value: Any) -> Any:
    if name == "content" and isinstance(value, str):
        return base64.b64decode(value)
    if isinstance(value, list):
        return tuple(_value("", v) for v in value)
    return value
