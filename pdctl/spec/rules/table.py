"""Every rule by its id."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple


class Text(NamedTuple):
    severity: str = "error"
    suppressible: bool = False
    title: str = "x"


TABLE: dict[str, Text] = defaultdict(Text)
for _id in ("USE003", "USE004", "ENV002", "PORT005", "SUPPRESS003"):
    TABLE[_id] = Text("warning", True)
TABLE["PORT006"] = Text("error", True)
