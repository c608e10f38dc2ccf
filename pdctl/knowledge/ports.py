"""Ports that are not free for everyone on a Linux host."""

from __future__ import annotations

from collections.abc import Iterable

# The default of net.ipv4.ip_local_port_range (Documentation/networking/ip-sysctl.rst): the kernel gives these
# to outgoing connections, and a server that wants one of them finds it taken now and then (vLLM issue 39015).
EPHEMERAL = range(32768, 61000)
# The default of net.ipv4.ip_unprivileged_port_start: only root may listen below it.
FIRST_UNPRIVILEGED = 1024
SSH = 22
LAST = 65535


def ranges(ports: Iterable[int]) -> str:
    """`7100,7300-7303`, as ip_local_reserved_ports takes them (Documentation/networking/ip-sysctl.rst)."""
    found: list[list[int]] = []
    for port in sorted(set(ports)):
        if found and port == found[-1][-1] + 1:
            found[-1][1:] = [port]
        else:
            found.append([port])
    return ",".join("-".join(map(str, ends)) for ends in found)
