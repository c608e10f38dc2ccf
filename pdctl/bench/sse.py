"""Bytes -> server-sent events, however the network cut them (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_EVENT_BYTES = 1 << 20  # an event of one token is some hundred bytes; more than this is not a token stream

# Two line ends in a row, each of any of three kinds; the look-ahead keeps one "\r\n" from being two.
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")


@dataclass(frozen=True)
class Event:
    data: str
    name: str = ""


class EventSplitter:
    """Holds the tail of a stream until its event is complete."""

    def __init__(self) -> None:
        self._tail = b""

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes; ValueError when one grows beyond all reason."""
        *blocks, self._tail = _BLANK_LINE.split(self._tail + data)
        if len(self._tail) > MAX_EVENT_BYTES:
            raise ValueError(f"an event of more than {MAX_EVENT_BYTES} bytes")
        return [event for block in blocks if (event := _event(block))]

    def rest(self) -> str:
        """What came after the last complete event."""
        return self._tail.decode(errors="replace")


def _event(block: bytes) -> Event | None:
    """None for comments (keep-alives) and blocks without data."""
    name, data = "", []
    for line in re.split(r"\r\n|\n|\r", block.decode(errors="replace")):
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "data":
            data.append(value)
        elif key == "event":
            name = value
    return Event("\n".join(data), name) if data else None
