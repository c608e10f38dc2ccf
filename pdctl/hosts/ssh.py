"""Reach -> a session over ssh; the only import of paramiko."""

from __future__ import annotations

import codecs
import contextlib
import logging
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self, cast

import paramiko
from paramiko.agent import AgentSSH

from pdctl.errors import HostError, UnreachableError
from pdctl.hosts import known_hosts
from pdctl.hosts.forward import GONE, Forwarder
from pdctl.hosts.gateways import Gateways
from pdctl.hosts.keys import KeyFile, key_file, refusal, require_key
from pdctl.hosts.openssh import Login, learning, resolve
from pdctl.hosts.proxy_process import ProxyProcess
from pdctl.hosts.reach import Reach
from pdctl.hosts.session import PROGRAM, Result, as_root
from pdctl.hosts.tcp import tune
from pdctl.hosts.transport import Transport

KEEPALIVE_S = 5
# One RSA host key serves several signature algorithms (RFC 8332); the SHA-1 one is not asked for.
ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
PROHIBITED = 1  # SSH_OPEN_ADMINISTRATIVELY_PROHIBITED, RFC 4254 section 5.1

# paramiko logs what it also raises; without a handler Python prints that to the user's stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

Socket = socket.socket | ProxyProcess | paramiko.Channel


class SshSession:
    """Programs, streams and forwards over one ssh connection."""

    def __init__(self, reach: Reach, gateways: Gateways | None = None) -> None:
        self.reach = reach
        self._own_gateways = Gateways()
        self._forwarders: dict[tuple[str, int], Forwarder] = {}
        try:
            require_key(reach)
            self._login = resolve(reach)
            self._transport = _reached(reach, self._login, gateways or self._own_gateways)
        except BaseException:
            self._own_gateways.close()
            raise

    @property
    def user(self) -> str:
        return self._login.user

    def run(self, program: bytes, argv: Sequence[str] = PROGRAM, timeout: float = 60.0) -> Result:
        deadline = time.monotonic() + timeout
        out, err = bytearray(), bytearray()
        with self._reporting(), self._started(argv, timeout) as channel:
            drains = (_drained(channel.recv, out), _drained(channel.recv_stderr, err))
            channel.settimeout(timeout)
            with contextlib.suppress(*GONE):  # a program that does not read: its end says why
                channel.sendall(program)
                channel.shutdown_write()
            for drain in drains:
                drain.join(max(0.0, deadline - time.monotonic()))
            ended = channel.status_event.wait(max(0.0, deadline - time.monotonic()))
            self._still_there()
            if not ended or any(drain.is_alive() for drain in drains):
                raise HostError(
                    f"`{shlex.join(argv)}` has not ended after {timeout:g} s", where=self.reach.name
                )
            return Result(channel.exit_status, bytes(out), bytes(err))

    def stream(self, argv: Sequence[str]) -> Iterator[str]:
        text = codecs.getincrementaldecoder("utf-8")("replace")
        with self._reporting(), self._started(argv, self._login.timeout_s) as channel:
            channel.set_combine_stderr(True)
            while data := channel.recv(1 << 16):
                yield text.decode(data)
            self._still_there()

    def forward(self, address: str, port: int) -> tuple[str, int]:
        if (address, port) not in self._forwarders:
            if probe := self._tunnel(address, port):
                probe.close()
            self._forwarders[address, port] = Forwarder(lambda: self._tunnel(address, port))
        return self._forwarders[address, port].address

    def close(self) -> None:
        for forwarder in self._forwarders.values():
            forwarder.close()
        self._transport.close()
        self._own_gateways.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self, argv: Sequence[str], timeout: float) -> paramiko.Channel:
        try:
            channel = self._transport.open_session(timeout=timeout)
            channel.exec_command(shlex.join(as_root(self.reach, self.user, argv)))
        except (paramiko.SSHException, EOFError, OSError) as error:
            self._still_there()
            raise HostError(f"sshd does not start a program: {error}", where=self.reach.name) from None
        return channel

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        """paramiko raises what it finds when a connection breaks off in the middle of a call."""
        try:
            yield
        except (EOFError, OSError, paramiko.SSHException) as error:
            self._still_there()
            said = str(error) or type(error).__name__
            raise UnreachableError(f"the ssh connection broke off: {said}", where=self.reach.name) from None

    def _still_there(self) -> None:
        if not self._transport.is_active():
            raise UnreachableError("the ssh connection was lost", where=self.reach.name)

    def _tunnel(self, address: str, port: int) -> paramiko.Channel | None:
        """A channel to `address:port`; None while nothing listens there."""
        try:
            return _tunnel(self._transport, address, port, self._login.timeout_s)
        except paramiko.ChannelException as error:
            if error.code != PROHIBITED:
                return None
        except (paramiko.SSHException, EOFError, OSError):
            self._still_there()
            return None
        hint = "set `AllowTcpForwarding yes` in its sshd_config"
        raise HostError("its sshd does not allow port forwarding", where=self.reach.name, hint=hint)


def _drained(read: Callable[[int], bytes], into: bytearray) -> threading.Thread:
    """Reads to the end in a thread of its own, so that neither of two streams can block the other."""

    def drain() -> None:
        with contextlib.suppress(*GONE):  # who waits for this thread has the deadline, and asks what happened
            while data := read(1 << 16):
                into.extend(data)

    thread = threading.Thread(target=drain, name="drain", daemon=True)
    thread.start()
    return thread


def _tunnel(transport: paramiko.Transport, host: str, port: int, timeout: float) -> paramiko.Channel:
    return transport.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=timeout)


def _reached(reach: Reach, login: Login, gateways: Gateways) -> paramiko.Transport:
    """Dial the host, or the jump hosts before it, and log in."""
    sock = _behind(reach, login, login.jumps, gateways) if login.jumps else _dialled(login, reach.name)
    return _logged_in(reach, login, sock, reach.name)


def _behind(reach: Reach, login: Login, hops: tuple[str, ...], gateways: Gateways) -> paramiko.Channel:
    """A channel from the last of `hops` to the host of `login`."""
    where = f"{reach.name}: jump host {hops[-1]}"

    def opened() -> paramiko.Transport:
        hop = resolve(reach, hops[-1])
        before = hops[:-1]
        sock = _behind(reach, hop, before, gateways) if before else _dialled(hop, where)
        return _logged_in(reach, hop, sock, where)

    gateway = gateways.get((reach.config, reach.key, reach.known_hosts, hops), opened)
    try:
        return _tunnel(gateway, login.host, login.port, login.timeout_s)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise UnreachableError(f"cannot reach {login.host} port {login.port}: {error}", where=where) from None


def _dialled(login: Login, where: str) -> Socket:
    if login.proxy_command:
        process = ProxyProcess(
            login.proxy_command, fdpass=login.fdpass, timeout_s=login.timeout_s + 1, where=where
        )
        return process
    at = f"{login.host} port {login.port}"
    try:
        sock = socket.create_connection((login.host, login.port), login.timeout_s)
    except socket.gaierror as error:
        raise UnreachableError(
            f"`{login.host}` does not resolve: {error.strerror}", where=where, hint="give its `address`"
        ) from None
    except ConnectionRefusedError:
        raise UnreachableError(
            f"{at} refuses connections", where=where, hint="is sshd running there?"
        ) from None
    except TimeoutError:
        raise UnreachableError(f"{at} does not answer within {login.timeout_s:g} s", where=where) from None
    except OSError as error:
        raise UnreachableError(f"{at}: {error.strerror}", where=where) from None
    tune(sock)
    return sock


def _logged_in(reach: Reach, login: Login, sock: Socket, where: str) -> paramiko.Transport:
    """Exchange keys, check the host's, prove ours."""
    transport = Transport(cast(socket.socket, sock))
    try:
        name = login.alias or known_hosts.known_name(login.host, login.port)
        known = known_hosts.entries(login.known_hosts, name)
        _prefer(transport, known)
        transport.banner_timeout = transport.auth_timeout = login.timeout_s
        transport.start_client(timeout=login.timeout_s)
        key = transport.get_remote_server_key()
        learn = learning(reach, login)
        known_hosts.check(known, known_hosts.Shown(key.get_name(), key.asbytes(), name, learn, where))
        _authenticate(transport, login, where)
        transport.set_keepalive(KEEPALIVE_S)
    except (paramiko.SSHException, EOFError, OSError) as error:
        transport.close()
        failure = sock.failure("ended") if isinstance(sock, ProxyProcess) else None
        raise failure or UnreachableError(f"no ssh connection: {error or 'closed'}", where=where) from None
    except BaseException:
        transport.close()
        raise
    return transport


def _prefer(transport: paramiko.Transport, known: Sequence[known_hosts.Entry]) -> None:
    """Ask first for the types of host key that are known, as ssh does: a host has several."""
    options = transport.get_security_options()
    wanted = [name for entry in known for name in ALGORITHMS.get(entry.type, (entry.type,))]
    ordered = dict.fromkeys([*(name for name in wanted if name in options.key_types), *options.key_types])
    options.key_types = tuple(ordered)


class _Agent(AgentSSH):
    """The ssh agent at a path of the user's choice (IdentityAgent); without one it holds no keys."""

    def __init__(self, path: str | None) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):  # nobody there
            if path:
                self._socket.connect(path)
                self._connect(self._socket)  # type: ignore[attr-defined]  # left out of the type stubs

    def close(self) -> None:
        self._socket.close()


def _authenticate(transport: Transport, login: Login, where: str) -> None:
    files = [file for path in login.identities if (file := key_file(path))]
    offered: list[str] = []
    with contextlib.closing(_Agent(login.agent)) as agent:
        for name, key in _offers(files, agent.get_keys(), login.identities_only):
            try:
                if further := transport.auth_publickey(login.user, key):
                    raise UnreachableError(f"sshd wants more than a key: {', '.join(further)}", where=where)
                return
            except paramiko.BadAuthenticationType as error:
                allowed = ", ".join(error.allowed_types)
                raise UnreachableError(f"sshd takes no keys, only: {allowed}", where=where) from None
            except paramiko.AuthenticationException:
                offered.append(name)
            if not transport.is_active():  # sshd has had enough (MaxAuthTries)
                break
    raise refusal(login, files, offered, where)


def _offers(
    files: Sequence[KeyFile], held: Sequence[paramiko.AgentKey], only: bool
) -> Iterator[tuple[str, paramiko.PKey]]:
    """Keys the user named that an agent holds, then those that can be read, then what else the agent has."""
    named = {file.public for file in files}
    for key in held:
        if key.asbytes() in named:
            yield f"agent: {key.comment}", key
    in_agent = {key.asbytes() for key in held}
    for file in files:
        if file.usable and file.public not in in_agent:
            yield file.path, paramiko.PKey.from_path(file.path)
    for key in held:
        if not only and key.asbytes() not in named:
            yield f"agent: {key.comment}", key
