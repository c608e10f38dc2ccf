"""URL of this host -> the processes that listen there, and the units they belong to."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import sys
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

LISTEN = "0A"  # TCP_LISTEN in linux/include/net/tcp_states.h
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def other_holder(url: str, unit: str, main_pid: int) -> tuple[str, str]:
    """Why an answer of `url` may not be `unit`'s own, and who holds the port; both empty when all is well.

    Every listener counts: vLLM binds with SO_REUSEPORT (vLLM 0.11, entrypoints/openai/api_server.py), so
    that two engines of one user can share a port and each gets a part of the connections.
    """
    parts = urlsplit(url)
    port = parts.port or 80
    inodes = listeners(port, parts.hostname or "")
    if not inodes:
        return f"no process of this host listens on port {port}", ""
    if inodes <= sockets_of(main_pid):
        return "", ""
    for pid in holders(inodes):
        holder = unit_of(pid) or command_of(pid)
        if holder != unit:
            return f"port {port} is held by {holder} (pid {pid})", holder
    return "", ""


def ports_of(pids: Iterable[int]) -> list[int]:
    """Ports on which any of these processes listens."""
    inodes = {inode for pid in pids for inode in sockets_of(pid)}
    return sorted({port for port, _, inode in listening() if inode in inodes})


def listeners(port: int, host: str) -> set[str]:
    """Inodes of sockets that listen on `port` at `host`; at any address if none is bound there."""
    found = [(address, inode) for number, address, inode in listening() if number == port]
    here = {inode for address, inode in found if address.is_unspecified or str(address) == host}
    return here or {inode for _, inode in found}


def listening() -> Iterator[tuple[int, ipaddress.IPv4Address | ipaddress.IPv6Address, str]]:
    """(port, address, inode) of every listening socket: proc(5), /proc/net/tcp."""
    for table in TABLES:
        with contextlib.suppress(FileNotFoundError), open(table, encoding="ascii") as handle:
            for line in list(handle)[1:]:
                words = line.split()
                if words[3] == LISTEN:
                    address, port = words[1].split(":")
                    yield int(port, 16), address_of(address), words[9]


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The kernel prints addresses as 32-bit words in the machine's byte order."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
    return getattr(address, "ipv4_mapped", None) or address


def holders(inodes: set[str]) -> Iterable[int]:
    """Processes that hold any of these sockets open."""
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    return (pid for pid in pids if sockets_of(pid) & inodes)


def sockets_of(pid: int) -> set[str]:
    """Inodes of the process's sockets; none when it has just ended or is none (0)."""
    folder = f"/proc/{pid}/fd"
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                target = os.readlink(f"{folder}/{name}")
                if target.startswith("socket:["):
                    found.add(target[len("socket:[") : -1])
    return found


def unit_of(pid: int) -> str:
    """The service a process belongs to, in either layout of control groups; empty for none."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as handle:
            parts = [part for line in handle for part in line.strip().split("/")]
    except OSError:
        return ""
    return next((part for part in reversed(parts) if part.endswith(".service")), "")


def command_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return "a process that has just ended"
