"""Reach -> the words for `ssh`, and, asked from `ssh -G`, what they amount to.

OpenSSH itself reads the user's configuration (Include, Match, tokens), so that the probe and Ansible agree.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pdctl.errors import HostError, SpecError, UnreachableError
from pdctl.hosts.reach import Reach
from pdctl.spec.places import at_home

CONNECT_TIMEOUT_S = 10.0
HOP = re.compile(
    r"((?P<user>[^-\s@]\S*)@)?"
    r"(\[(?P<bracketed>[0-9a-fA-F:.]+)\]|(?P<host>[^-@:\[\s][^@:\[\s]*|[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*))"
    r"(:(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True)
class Login:
    """One ssh connection, fully resolved."""

    host: str
    port: int
    user: str
    alias: str | None
    identities: tuple[str, ...]
    identities_only: bool
    agent: str | None
    known_hosts: tuple[str, ...]
    proxy_command: str | None
    fdpass: bool
    jumps: tuple[str, ...]
    timeout_s: float


def options(reach: Reach) -> list[str]:
    """Options for `ssh` to this host: never asks, never learns a host key."""
    return _through(_hops(reach.jump), reach, _login_options(reach))


def resolve(reach: Reach, hop: str | None = None) -> Login:
    """What ssh would do for this host, or for `hop` (`user@host:port`), one of the jump hosts before it."""
    words = _common_options(reach) if hop else _login_options(reach)
    answer = _ask(reach, [*words, *(_destination(hop) if hop else ["--", reach.address])])
    first = {key: values[0] for key, values in answer.items()}
    jump = None if hop else reach.jump or first.get("proxyjump")
    command = first.get("proxycommand")
    login = Login(
        host=first["hostname"],
        port=int(first["port"]),
        user=first["user"],
        alias=first.get("hostkeyalias"),
        identities=(),
        identities_only=first.get("identitiesonly") == "yes",
        agent=_agent(first.get("identityagent")),
        known_hosts=_known_hosts(reach, first),
        proxy_command=None if jump or command in (None, "none") else command,
        fdpass=first.get("proxyusefdpass") == "yes",
        jumps=_hops(jump),
        timeout_s=_seconds(first.get("connecttimeout")),
    )
    return _expanded(login, reach, answer.get("identityfile", []))


def learning(reach: Reach, login: Login) -> str:
    """What the user can do to make a host key known; pdctl never does it."""
    words = ["ssh", "-o", "StrictHostKeyChecking=ask"]
    options = {"-F": reach.config, "-p": reach.port, "-l": reach.user, "-i": reach.key, "-J": reach.jump}
    for option, value in options.items():
        words += [option, str(value)] if value else []
    words += ["-o", f"UserKnownHostsFile={reach.known_hosts}"] if reach.known_hosts else []
    by_hand = f"compare its fingerprint, then connect once: `{shlex.join([*words, reach.address])}`"
    if login.proxy_command or login.jumps or not login.known_hosts:
        return by_hand
    return f"{by_hand}, or `ssh-keyscan -p {login.port} {login.host} >> {login.known_hosts[0]}`"


def _common_options(reach: Reach) -> list[str]:
    """Options that hold for the host and for the jump hosts before it."""
    words = ["-F", reach.config] if reach.config else []
    if reach.key:
        words += ["-o", f"IdentityFile={_quoted(reach.key)}", "-o", "IdentitiesOnly=yes"]
    if reach.known_hosts:
        words += ["-o", f"UserKnownHostsFile={_quoted(reach.known_hosts)}"]
    return [*words, "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes"]


def _login_options(reach: Reach) -> list[str]:
    words = _common_options(reach)
    if reach.user:
        words += ["-o", f"User={reach.user}"]
    if reach.port:
        words += ["-o", f"Port={reach.port}"]
    return words


def _through(hops: Sequence[str], reach: Reach, words: list[str]) -> list[str]:
    """A ProxyCommand: ProxyJump would not hand our key, known_hosts and BatchMode to the jump host's ssh."""
    if not hops:
        return words
    inner = _through(hops[:-1], reach, _common_options(reach))
    # ssh expands the whole text at each level: what is meant for the inner ssh is doubled.
    command = shlex.join(["ssh", *(word.replace("%", "%%") for word in inner)])
    command += f" -W '[%h]:%p' {shlex.join(_destination(hops[-1]))}"
    return [*words, "-o", f"ProxyCommand={command}", "-o", "ProxyUseFdpass=no"]


def _quoted(path: str) -> str:
    """A path as one word of ssh_config(5); `%` would start a token."""
    return '"' + path.replace("%", "%%") + '"'


def _destination(hop: str) -> list[str]:
    """`user@host:port` as words for ssh; an IPv6 address with a port stands in brackets."""
    found = HOP.fullmatch(hop)
    if found is None:
        raise SpecError(f"`{hop}` is not a jump host", where="ssh.jump", hint="write `user@host:port`")
    words = ["-l", found["user"]] if found["user"] else []
    words += ["-p", found["port"]] if found["port"] else []
    return [*words, "--", found["bracketed"] or found["host"]]


def _hops(jump: str | None) -> tuple[str, ...]:
    hops = (hop.strip().removeprefix("ssh://") for hop in (jump or "").split(","))
    return tuple(hop for hop in hops if hop and hop != "none")


def _ask(reach: Reach, words: list[str]) -> dict[str, list[str]]:
    try:
        done = subprocess.run(["ssh", "-G", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise HostError(
            "`ssh` is not installed on this machine", hint="apt-get install openssh-client"
        ) from None
    if done.returncode:
        raise UnreachableError(f"ssh refuses its configuration: {done.stderr.strip()}", where=reach.name)
    answer: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        answer.setdefault(key, []).append(value)
    return answer


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdecimal() else CONNECT_TIMEOUT_S


def _agent(text: str | None) -> str | None:
    if text in (None, "SSH_AUTH_SOCK"):
        return os.environ.get("SSH_AUTH_SOCK")
    if text == "none":
        return None
    return os.environ.get(text[1:]) if text.startswith("$") else str(at_home(text))


def _known_hosts(reach: Reach, first: Mapping[str, str]) -> tuple[str, ...]:
    """`ssh -G` joins several files by spaces and does not quote: a text that is a file is one file."""
    user = [reach.known_hosts] if reach.known_hosts else _files(first.get("userknownhostsfile", ""))
    return (*user, *_files(first.get("globalknownhostsfile", "")))


def _files(text: str) -> list[str]:
    return [text] if Path(text).is_file() else [word for word in text.split() if word != "none"]


def _expanded(login: Login, reach: Reach, identities: Sequence[str]) -> Login:
    """Tokens that `ssh -G` leaves as written (ssh_config(5), TOKENS)."""
    tokens = {"h": login.host, "p": str(login.port), "r": login.user, "n": reach.address, "%": "%"}
    tokens |= {"d": str(Path.home()), "u": os.environ.get("USER", login.user)}

    def expand(text: str) -> str:
        return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)

    return replace(
        login,
        identities=tuple(str(at_home(expand(path))) for path in identities),
        known_hosts=tuple(str(at_home(expand(path))) for path in login.known_hosts),
        proxy_command=expand(login.proxy_command) if login.proxy_command else None,
    )
