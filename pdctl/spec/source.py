"""Bytes -> Source: the text of a spec, checked for size and encoding, and its lines and columns."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from pdctl.errors import Place, SpecError

MAX_BYTES = 1 << 20  # a file for 1,000 hosts is about 60 KiB
BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
# What YAML 1.2 (5.1) does not allow in a stream, and what an editor does not show: zero-width characters,
# those that turn the direction of writing (CVE-2021-42574), and Unicode's line ends, which YAML 1.1 knew.
UNPRINTABLE = (
    "[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    "|[\u200b\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069]"
)


@dataclass(frozen=True)
class Source:
    """The text of a spec, and the name it is reported under."""

    name: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        """Where each line begins; \\r\\n, \\n and \\r end a line, as in editors."""
        return [0, *(match.end() for match in re.finditer("\r\n|\n|\r", self.text))]

    def line(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def place(self, offset: int, path: str = "") -> Place:
        """`cluster.yaml:12:5: serving.decoders`, counted from 1."""
        line = self.line(offset)
        return Place(self.name, line, offset - self._starts[line - 1] + 1, path)


def source(raw: str | bytes, name: str) -> Source:
    """Decode `raw`; SpecError says where it stops being text."""
    if len(raw) > MAX_BYTES:
        raise SpecError(
            f"is larger than {MAX_BYTES >> 20} MiB",
            where=Place(name),
            hint="a spec has some lines per host; was another file named by mistake?",
            rule="SYNTAX004",
        )
    text = _decode(raw, name) if isinstance(raw, bytes) else raw
    found = Source(name, text.removeprefix("\ufeff"))
    if bad := re.search(UNPRINTABLE, found.text):
        raise SpecError(
            f"contains the character U+{ord(bad[0]):04X}, which cannot stand here",
            where=found.place(bad.start()),
            hint="remove it, or write it as an escape inside double quotes",
            rule="SYNTAX003",
        )
    return found


def _decode(raw: bytes, name: str) -> str:
    hint = "save it as UTF-8"
    if encoding := BOMS.get(raw[:2]):
        raise SpecError(f"is {encoding} text", where=Place(name), hint=hint, rule="SYNTAX002")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = Source(name, raw[: error.start].decode("utf-8"))
        raise SpecError(
            f"is not UTF-8 text: byte 0x{raw[error.start]:02x}",
            where=before.place(len(before.text)),
            hint=hint,
            rule="SYNTAX002",
        ) from None
