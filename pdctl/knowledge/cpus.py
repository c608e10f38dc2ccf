"""Lists of CPUs as Linux writes them: `0-47,96-143`."""

from __future__ import annotations

import re
from collections.abc import Iterable

CPU_LIST = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*")


def cpu_set(text: str) -> frozenset[int]:
    """Empty where the text is no such list, or has a range that runs backwards."""
    if not CPU_LIST.fullmatch(text):
        return frozenset()
    ranges = [part.partition("-") for part in text.split(",")]
    pairs = [(int(first), int(last or first)) for first, _, last in ranges]
    if any(first > last for first, last in pairs):
        return frozenset()
    return frozenset(cpu for first, last in pairs for cpu in range(first, last + 1))


def cpu_text(cpus: Iterable[int]) -> str:
    """The shortest such list."""
    found: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if found and found[-1][1] == cpu - 1:
            found[-1][1] = cpu
        else:
            found.append([cpu, cpu])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in found)
