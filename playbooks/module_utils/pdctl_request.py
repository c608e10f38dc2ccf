"""What Ansible hands over -> the request."""

from __future__ import annotations

import base64
import json


def decoded(request) -> dict:
    """Text that Ansible passes on untouched, where a dict would have each of its strings templated."""
    return json.loads(base64.b64decode(request)) if isinstance(request, str) else request
