"""Every rule by its id."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple


class Text(NamedTuple):
    severity: str = "error"


TABLE: dict[str, Text] = defaultdict(Text)
for _id in ("USE003", "USE004", "ENV002"):
    TABLE[_id] = Text("warning")
