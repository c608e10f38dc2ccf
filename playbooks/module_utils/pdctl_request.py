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
