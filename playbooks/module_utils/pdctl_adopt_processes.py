"""/proc -> the processes that serve: engines, proxies, cache servers, each the first of its family."""

from __future__ import annotations

import os
import pwd
import re
from typing import Any

from ansible.module_utils.pdctl_sockets import listening, sockets_of

PYTHON = re.compile(r"(?:python|pypy)[0-9.]*$")
WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")  # options of the interpreter (python3 --help)
ENGINES = ("vllm", "pdctl_simulator", "pdctl-simulator")
FRONT = re.compile(r"(?i)proxy|router|disagg")
CACHES = ("lmcache", "lmcache_server", "lmcache_experimental_server")
CONTAINER = re.compile(r"docker|libpod|containerd|kubepods|crio|lxc\.payload|machine\.slice")


class Process:
    """One process: what /proc says of it, read once."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.folder = f"/proc/{pid}"
        raw = _bytes(self.folder + "/cmdline")
        self.argv = [os.fsdecode(word) for word in raw[:-1].split(b"\0")] if raw else []
        self.kind = kind_of(self.argv)
        self.parent = _parent(self.folder)

    def environment(self) -> dict[str, str]:
        entries = _bytes(self.folder + "/environ").split(b"\0")
        pairs = (os.fsdecode(entry).partition("=") for entry in entries)
        return {name: value for name, equals, value in pairs if equals}

    def cwd(self) -> str:
        try:
            return os.readlink(self.folder + "/cwd")
        except OSError:
            return "/"

    def user(self) -> str:
        try:
            number = os.stat(self.folder).st_uid
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return str(number)
        except OSError:
            return ""

    def control_group(self) -> str:
        """The path of its control group, in either layout."""
        lines = _bytes(self.folder + "/cgroup").decode("utf-8", "replace").splitlines()
        rows = [line.split(":", 2) for line in lines if line.count(":") >= 2]
        named = [path for _, names, path in rows if names in ("", "name=systemd")]
        return max(named, key=len, default="")


def families() -> list[tuple[Process, list[int]]]:
    """Each serving process that no other started, with the pids of all its descendants and its own."""
    table = {pid: Process(pid) for pid in sorted(int(n) for n in os.listdir("/proc") if n.isdigit())}
    heads = [p for p in table.values() if p.kind and not _has_ancestor(p, table)]
    return [(head, _family(head.pid, table)) for head in heads]


def kind_of(argv: list[str]) -> str:
    """`engine`, `proxy`, `cache`, or nothing. Shells and launchers that wait for one are none themselves."""
    name = program(argv)
    if name in ENGINES or name.startswith(("vllm.entrypoints", "pdctl_simulator.")):
        return "engine"
    if name in CACHES or name.startswith(("lmcache.v1", "lmcache.server")):
        return "cache"
    return "proxy" if FRONT.search(name) else ""


def program(argv: list[str]) -> str:
    """`vllm` for `python -u /venv/bin/vllm serve`, `vllm.x` for `python -m vllm.x`; or a router's."""
    if not argv:
        return ""
    if not PYTHON.match(os.path.basename(argv[0])):
        return os.path.basename(argv[0]) if os.path.basename(argv[0]) == "vllm-router" else ""
    words = iter(argv[1:])
    for word in words:
        if word in WITH_VALUE:
            next(words, "")
        elif word.startswith("-m") and not word.startswith("--"):
            return word[2:] or next(words, "")
        elif re.match(r"-[bBdEiIOPqsSuvx]*m$", word):  # -um vllm.x
            return next(words, "")
        elif word.startswith("-c"):
            return ""
        elif not word.startswith("-"):
            return os.path.basename(word)
    return ""


def unit_of(control_group: str) -> dict[str, Any]:
    """The innermost unit, whether a user's own manager runs it, and whether it is a container's."""
    parts = control_group.split("/")
    unit = next((part for part in reversed(parts) if part.endswith((".service", ".scope"))), "")
    own = unit.endswith(".service") and not unit.startswith("user@")
    return {
        "unit": unit if own else "",
        "user_unit": own and any(part.startswith("user@") for part in parts),
        "container": bool(CONTAINER.search(control_group)),
    }


def open_ports(family: list[int]) -> list[list[Any]]:
    """[address, port] of every socket on which the family listens."""
    held: set[str] = set()
    for pid in family:
        held |= sockets_of(pid)
    return sorted([str(address), port] for port, address, inode in listening() if inode in held)


def _has_ancestor(process: Process, table: dict[int, Process]) -> bool:
    """Whether it descends from one of its own kind: a worker, or a fork."""
    parent = table.get(process.parent)
    while parent is not None:
        if parent.kind == process.kind:
            return True
        parent = table.get(parent.parent) if parent.parent else None
    return False


def _family(head: int, table: dict[int, Process]) -> list[int]:
    found = [head]
    for pid in found:
        found += [other.pid for other in table.values() if other.parent == pid and other.pid not in found]
    return found


def _parent(folder: str) -> int:
    text = _bytes(folder + "/stat").decode("utf-8", "replace")
    words = text.rpartition(")")[2].split()  # the name before may hold anything
    return int(words[1]) if len(words) > 1 else 0


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return b""
