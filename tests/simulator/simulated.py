"""Simulated engines as real processes on loopback, and the little client that these tests ask them with."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgpack
import zmq

Json = dict[str, Any]

BYTES_PER_TOKEN = 64
CHUNK = 8
FAST = {
    "itl_ms": 1,
    "prefill_tokens_per_s": 1_000_000,
    "bytes_per_token": BYTES_PER_TOKEN,
    "handshake_timeout_s": 1,
}
NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


class Instance:
    """One running engine."""

    def __init__(self, port: int, argv: list[str], environ: Mapping[str, str], log: Path) -> None:
        self.port = port
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(argv, env=dict(environ), stdout=output, stderr=output)

    def call(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Status and body of one exchange; JSON is read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        with contextlib.closing(connection):
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if is_json else text

    def complete(self, prompt: object, max_tokens: int = 8, **more: object) -> Json:
        """The answer to a completion, which must succeed."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, **more}
        status, answer = self.call("POST", "/v1/completions", body)
        assert status == 200, answer
        return dict(answer)

    def text(self, prompt: object, max_tokens: int = 8, **more: object) -> str:
        """The text of a completion."""
        return str(self.complete(prompt, max_tokens, **more)["choices"][0]["text"])

    def fault(self, **faults: object) -> None:
        """Ask for faults."""
        status, answer = self.call("POST", "/pdctl/faults", faults)
        assert status == 200, answer

    def metric(self, name: str) -> float:
        """The value of one line of /metrics, e.g. `vllm:prompt_tokens_total` or `name{source="x"}`."""
        found = re.fullmatch(r"([^{]+)(?:\{(.+)\})?", name)
        assert found
        for line in str(self.call("GET", "/metrics")[1]).splitlines():
            label = found[2] is None or found[2] in line
            if line.startswith((f"{found[1]}{{", f"{found[1]} ")) and label:
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name}")

    def ready(self) -> bool:
        """Whether it serves; fails the test when the process has ended."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.call("GET", "/health")[0] == 200
        except OSError:
            return False

    def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        return self.process.wait(timeout=5)

    def stop(self) -> int:
        """End it as systemd would."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=5)
        finally:
            if self.process.poll() is None:
                self.process.kill()


class Farm:
    """Starts engines, and stops all of them at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._instances: list[Instance] = []

    def spawn(self, *flags: str, env: Mapping[str, str] = NO_ENVIRONMENT, **parameters: object) -> Instance:
        """Start an engine; it may still be coming up."""
        port = free_ports(1)[0]
        argv = [sys.executable, "-m", "pdctl.simulator", "serve", "tiny", "--host", "127.0.0.1"]
        argv += ["--port", str(port), "--max-model-len", "512", *flags]
        # aiohttp reads the machine's CA certificates at import, a good part of the start; here is no TLS.
        environ = {"PATH": os.environ["PATH"], "SSL_CERT_FILE": os.devnull, **env}
        environ["PDCTL_SIMULATOR"] = json.dumps({**FAST, **parameters})
        log = self._folder / f"{len(self._instances)}.log"
        self._instances.append(Instance(port, argv, environ, log))
        return self._instances[-1]

    def up(self, *instances: Instance) -> None:
        """Wait until they serve."""
        until(lambda: all(instance.ready() for instance in instances))

    def stop(self) -> None:
        """Stop every engine."""
        for instance in self._instances:
            instance.stop()


class Pair:
    """A prefiller and a decoder with LMCache between them, and the proxy's end of the notifications."""

    def __init__(self, farm: Farm, folder: Path, ranks: int = 1, slots: int = 64, **options: Any) -> None:
        notify, *ports = free_ports(1 + 2 * ranks)
        self.init, self.alloc = ports[:ranks], ports[ranks:]
        size = slots * CHUNK * BYTES_PER_TOKEN
        common = {
            "enable_pd": True,
            "transfer_channel": "nixl",
            "pd_buffer_size": size,
            "pd_buffer_device": "cuda",
        }
        common |= {"chunk_size": CHUNK, **options.pop("common", {})}
        sender = {**common, "pd_role": "sender", "pd_proxy_host": "127.0.0.1", "pd_proxy_port": notify}
        receiver = {**common, "pd_role": "receiver", "pd_peer_host": "127.0.0.1"}
        receiver |= {"pd_peer_init_port": self.init, "pd_peer_alloc_port": self.alloc}
        receiver |= options.pop("receiver", {})
        self._farm, self._ranks, self._parameters = farm, ranks, options.pop("parameters", {})
        self._prefiller_flags = options.pop("prefiller_flags", ())
        self._sender, self._receiver = folder / "sender.yaml", folder / "receiver.yaml"
        self._sender.write_text(json.dumps(sender))
        self._receiver.write_text(json.dumps(receiver))
        self._seeds = options.pop("seeds", ("0", "0"))
        self._extra = options.pop("extra", {})
        assert not options
        self._context = zmq.Context()
        self._notified = self._context.socket(zmq.PULL)
        self._notified.bind(f"tcp://127.0.0.1:{notify}")
        self.prefiller, self.decoder = self.spawn_prefiller(), self.spawn_decoder()
        farm.up(self.prefiller, self.decoder)

    def spawn_prefiller(self) -> Instance:
        """Another prefiller process with the same configuration."""
        return self._spawn("kv_producer", self._sender, self._seeds[0], *self._prefiller_flags)

    def spawn_decoder(self) -> Instance:
        """Another decoder process with the same configuration."""
        return self._spawn("kv_consumer", self._receiver, self._seeds[1], "--no-enable-prefix-caching")

    def prefill(self, prompt: list[int], request_id: str = "r1", **more: object) -> Json:
        """What a proxy asks of the prefiller."""
        spec = {"req_id": request_id, "receiver_host": "127.0.0.1"}
        ports = {"receiver_init_port": self.init, "receiver_alloc_port": self.alloc}
        kv = {"ret_first_tok": True, "disagg_spec": {**spec, **ports}}
        return self.prefiller.complete(prompt, 1, kv_transfer_params=kv, **more)

    def notifications(self, count: int, seconds: float = 5) -> list[Json]:
        """Up to `count` notifications, as many as come in time."""
        messages: list[Json] = []
        while len(messages) < count and self._notified.poll(int(seconds * 1000)):
            messages.append(msgpack.unpackb(self._notified.recv()))
        return messages

    def generate(self, prompt: list[int], max_tokens: int = 8, request_id: str = "r1") -> str:
        """Prefill, wait for every rank, decode the same prompt: the protocol of LMCache 0.5.6's users."""
        self.prefill(prompt, request_id)
        want = [{"type": "ProxyNotif", "req_id": request_id}] * self._ranks
        assert self.notifications(self._ranks) == want
        return self.decoder.text(prompt, max_tokens)

    def close(self) -> None:
        """Free the notification port."""
        self._notified.close(linger=0)
        self._context.term()

    def _spawn(self, role: str, config: Path, seed: str, *flags: str) -> Instance:
        transfer = {
            "kv_connector": "LMCacheConnectorV1",
            "kv_role": role,
            "kv_connector_extra_config": self._extra,
        }
        env = {"LMCACHE_CONFIG_FILE": str(config), **({"PYTHONHASHSEED": seed} if seed else {})}
        flags = ("--kv-transfer-config", json.dumps(transfer), "-tp", str(self._ranks), *flags)
        return self._farm.spawn(*flags, env=env, **self._parameters)


def free_ports(count: int) -> list[int]:
    """Ports in a row that nobody listens on now, below those that outgoing connections take."""
    first = random.randrange(20_000, 32_000 - count)
    ports = list(range(first, first + count))
    try:
        for port in ports:
            socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return free_ports(count)
    return ports


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for `condition`, asking every 20 ms."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not true within {seconds} s"
        pause.wait(0.02)


@contextlib.contextmanager
def pair_in(folder: Path, **options: Any) -> Iterator[Pair]:
    """A pair of its own."""
    with farm_in(folder) as farm:
        pair = Pair(farm, folder, **options)
        try:
            yield pair
        finally:
            pair.close()


@contextlib.contextmanager
def farm_in(folder: Path) -> Iterator[Farm]:
    """A farm that is stopped at the end."""
    farm = Farm(folder)
    try:
        yield farm
    finally:
        farm.stop()
