"""Process -> Front: what a proxy listens on, and the instances it sends requests to."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pdctl.adopt.observed import Process, Seen
from pdctl.adopt.words import Command, after_program, read_words
from pdctl.knowledge.adoption import LMCACHE_PROXY_DEFAULTS, TOY_PROXY_LISTS, URL_FLAGS
from pdctl.topology.model import Role

URL = re.compile(r"https?://(?P<host>\[[^\]]+\]|[^/:@\s]+):(?P<port>\d{1,5})")


@dataclass(frozen=True)
class Member:
    """An instance as its proxy knows it; the port lists are those of LMCache decoders."""

    role: Role
    host: str
    port: int
    init: tuple[int, ...] = ()
    alloc: tuple[int, ...] = ()


@dataclass(frozen=True)
class Front:
    host: str
    process: Process
    kind: str
    port: int
    told: tuple[str, ...] = ()  # addresses of its own that it binds
    notification: int | None = None
    metrics: int | None = None
    members: tuple[Member, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.host}/{self.process.label}"


def read_front(seen: Seen, process: Process) -> Front | None:
    """None for programs that are called proxy and send nothing to two sides."""
    if not process.argv:
        return None
    command = read_words(after_program(process.argv), {})
    names = set(command.flags)
    if any("pdctl_proxy" in word for word in process.argv[:4]):
        return _ours(seen, process, command)
    if names & {"decoder-init-port", "num-prefillers", "num-decoders", "proxy-port"}:
        return _lmcache(seen, process, command)
    if names & {"prefiller-hosts", "prefiller-ports", "decoder-hosts", "decoder-ports", "prefiller-host"}:
        return _toy(seen, process, command)
    return _by_urls(seen, process)


def _ours(seen: Seen, process: Process, command: Command) -> Front | None:
    try:
        config = json.loads(process.files.get(command.text("config"), ""))
    except ValueError:
        return None
    if not isinstance(config, dict) or not isinstance(config.get("listen"), dict):
        return None
    members = [
        _by_url(role, row["url"], row)
        for key, role in (
            ("prefillers", Role.PREFILLER),
            ("decoders", Role.DECODER),
            ("servers", Role.SERVER),
        )
        for row in config.get(key) or ()
    ]
    return Front(
        seen.name,
        process,
        "pdctl's own",
        config["listen"]["port"],
        told=tuple(config[key]["host"] for key in ("listen", "metrics", "notification") if config.get(key)),
        notification=(config.get("notification") or {}).get("port"),
        metrics=(config.get("metrics") or {}).get("port"),
        members=tuple(member for member in members if member),
    )


def _lmcache(seen: Seen, process: Process, command: Command) -> Front:
    def asked(name: str) -> list[str]:
        return [word.strip() for word in command.text(name, LMCACHE_PROXY_DEFAULTS[name]).split(",")]

    def numbers(name: str) -> tuple[int, ...]:
        return tuple(int(word) for word in asked(name) if word.isdecimal())

    count = {side: (numbers(f"num-{side}s") or (1,))[0] for side in ("prefiller", "decoder")}
    prefillers = paired(asked("prefiller-host"), numbers("prefiller-port"), count["prefiller"])
    decoders = paired(asked("decoder-host"), numbers("decoder-port"), count["decoder"])
    shift = len(asked("decoder-host")) == 1 and len(numbers("decoder-port")) == 1
    init, alloc = numbers("decoder-init-port"), numbers("decoder-alloc-port")
    members = [Member(Role.PREFILLER, host, port) for host, port in prefillers]
    for index, (host, port) in enumerate(decoders):
        moved = index if shift else 0
        members.append(Member(Role.DECODER, host, port, _moved(init, moved), _moved(alloc, moved)))
    return Front(
        seen.name,
        process,
        "LMCache's sample proxy",
        (numbers("port") or (0,))[0],
        told=(asked("host")[0], asked("proxy-host")[0]),
        notification=(numbers("proxy-port") or (None,))[0],
        members=tuple(members),
    )


def paired(hosts: Sequence[str], ports: Sequence[int], count: int) -> list[tuple[str, int]]:
    """As disagg_proxy_server.py pairs them: one host and one port with a count are consecutive ports."""
    if len(hosts) == 1 and len(ports) == 1:
        return [(hosts[0], ports[0] + index) for index in range(count)]
    if len(hosts) == 1:
        return [(hosts[0], port) for port in ports]
    if len(ports) == 1:
        return [(host, ports[0]) for host in hosts]
    return list(zip(hosts, ports, strict=False))


def _moved(ports: tuple[int, ...], by: int) -> tuple[int, ...]:
    return tuple(port + by for port in ports)


def _toy(seen: Seen, process: Process, command: Command) -> Front:
    """vLLM's toy proxy; its lists are separated by spaces, so they are read again from the words."""
    members = []
    for role, (hosts, ports) in TOY_PROXY_LISTS.items():
        pairs = zip(_words_of(process, hosts), _words_of(process, ports), strict=False)
        members += [Member(Role(role), host, int(port)) for host, port in pairs if port.isdecimal()]
    return Front(
        seen.name,
        process,
        "vLLM's toy proxy",
        command.number("port") or 8000,
        told=(command.text("host", "localhost"),),
        members=tuple(members),
    )


def _by_urls(seen: Seen, process: Process) -> Front | None:
    """Routers that are given a URL for each instance."""
    members = []
    for role, names in URL_FLAGS.items():
        urls = [word for word in _words_of(process, names) if "://" in word]
        members += [member for url in urls if (member := _by_url(Role(role), url, {}))]
    if not members:
        return None
    command = read_words(after_program(process.argv), {})
    name = process.argv[1 if len(process.argv) > 1 and "python" in process.argv[0] else 0]
    return Front(
        seen.name,
        process,
        re.sub(r".*/", "", name),
        command.number("port") or 8000,
        told=(command.text("host", "127.0.0.1"),),
        members=tuple(members),
    )


def _by_url(role: Role, url: str, row: dict[str, Any]) -> Member | None:
    match = URL.match(url)
    if match is None:
        return None
    init, alloc = tuple(row.get("init_ports") or ()), tuple(row.get("alloc_ports") or ())
    return Member(role, match["host"].strip("[]"), int(match["port"]), init, alloc)


def _words_of(process: Process, names: Sequence[str]) -> list[str]:
    """All words that follow any of the flags, wherever it is repeated."""
    found: list[str] = []
    inside = False
    for word in process.argv:
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            inside = name.lstrip("-").replace("_", "-") in names
            found += [value] if inside and equals else []
        elif inside:
            found.append(word)
    return [part for word in found for part in word.split(",") if part]
