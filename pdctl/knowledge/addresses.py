"""The text of a PCI address -> its numbers: tools differ in the digits of the domain and in their case."""

from __future__ import annotations

import re

PCI = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([01][0-9A-Fa-f])\.([0-7])")


def pci_key(address: str) -> tuple[int, ...]:
    """`00000000:1B:00.0` of nvidia-smi is `0000:1b:00.0` of Linux; empty when it is no address."""
    match = PCI.fullmatch(address)
    return tuple(int(part, 16) for part in match.groups()) if match else ()


def pci_text(address: str) -> str:
    """As Linux writes it; empty when it is no address."""
    key = pci_key(address)
    return "{:04x}:{:02x}:{:02x}.{:x}".format(*key) if key else ""
