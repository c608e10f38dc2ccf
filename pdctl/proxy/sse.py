"""A decoder's bytes -> whole server-sent events, and back; no event is judged before all of it is there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

DONE = b"data: [DONE]\n\n"
_END = re.compile(rb"\r?\n\r?\n")


class Splitter:
    """Cuts a byte stream into events, wherever the network has cut it before."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        self._rest += chunk
        events, start = [], 0
        for end in _END.finditer(self._rest):
            events.append(self._rest[start : end.end()])
            start = end.end()
        self._rest = self._rest[start:]
        return events


def data(event: bytes) -> bytes:
    """The event's data lines, joined as the standard says; empty for a comment."""
    lines = [line for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)


def document(event: bytes) -> dict[str, Any]:
    """The event's JSON object; empty when it holds none (a comment, [DONE])."""
    return parsed(data(event))


def parsed(text: bytes) -> dict[str, Any]:
    """A JSON object, or an empty one when the text is anything else."""
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def has_lone_surrogate(body: Mapping[str, Any]) -> bool:
    """Whether some text in it cannot be written as UTF-8: JSON's escapes may spell one half of a pair."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def encode(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def is_done(event: bytes) -> bool:
    return data(event) == b"[DONE]"


def reports_error(event: bytes) -> bool:
    """True for an error event, or a chunk that ends with finish_reason `error`, whatever the status."""
    return b"error" in event and has_error(document(event))


def has_error(answer: Mapping[str, Any]) -> bool:
    """The same for a whole JSON answer: engines send 200 with an error inside after a failed KV transfer."""
    if answer.get("error") or answer.get("object") == "error":
        return True
    return ends_with(answer, "error")


def ends_with(answer: Mapping[str, Any], reason: str) -> bool:
    choices = answer.get("choices")
    listed = choices if isinstance(choices, list) else []
    return any(isinstance(choice, dict) and choice.get("finish_reason") == reason for choice in listed)
