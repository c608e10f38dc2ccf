"""What Ansible hands over -> the request."""

from __future__ import annotations

import base64
import json

from ansible.module_utils.pdctl_rows import Row


def decoded(request: str | Row) -> Row:
    """Text that Ansible passes on untouched, where a dict would have each of its strings templated."""
    if isinstance(request, str):
        request = dict(json.loads(base64.b64decode(request)))
    return request


def chosen(request: Row, weights: bool) -> Row:
    """The same with only the weights of models to put, which need the secrets there first, or all else."""
    rows = [row for row in request.get("put") or () if (row["kind"] == "weights") == weights]
    return dict(request, put=rows) if "put" in request else request
