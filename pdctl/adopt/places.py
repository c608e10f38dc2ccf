"""An address as a process was told it -> the host that it means."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from pdctl.adopt.observed import Seen

HERE = ("localhost", "localhost.localdomain", "ip6-localhost", "")


def owner(hosts: Sequence[Seen], address: str, home: str) -> str | None:
    """The host with this address or name; loopback and `any` mean `home`, where the words were read."""
    if is_local(address):
        return home
    for seen in hosts:
        names = {
            seen.name,
            seen.address,
            seen.answer.facts.hostname,
            seen.answer.facts.hostname.split(".")[0],
        }
        if address in names or address in (a for _, a in seen.answer.addresses):
            return seen.name
    return None


def is_local(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address.lower() in HERE
    return ip.is_loopback or ip.is_unspecified


def is_number(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def most_common(values: Iterable[str]) -> str | None:
    """The first of those that come most often."""
    given = list(values)
    return max(given, key=lambda value: (given.count(value), -given.index(value))) if given else None
