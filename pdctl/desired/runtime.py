"""The Python environments of a host: engine and proxy, each from its own lock."""

from __future__ import annotations

import functools
import hashlib

from pdctl.desired.layout import VENVS
from pdctl.parts.lock import load_lock
from pdctl.parts.own import own_wheel
from pdctl.state import Venv
from pdctl.state.digest import object_digest
from pdctl.topology.model import Topology

# Name of a runtime -> the parts of ours that it holds beside its lock.
OWN_PARTS: dict[str, tuple[str, ...]] = {
    "proxy": ("proxy",),
    "simulator": ("simulator",),
    "engine-cpu": ("cpu-connector", "vllm-stub"),
}
# Pins that make up a CUDA engine's environment, in the order in which they bind each other.
CUDA_PINS = ("torch", "vllm", "nixl", "lmcache")


def engine_runtime(topology: Topology, host: str) -> Venv:
    engine = topology.spec.engine
    if engine.kind == "simulator":  # `stack.python` is the played engine's
        return locked_runtime("simulator", topology.hosts[host].python)
    if engine.device == "cpu":
        return locked_runtime("engine-cpu", topology.pins["python"])
    return _cuda_runtime(topology)


def proxy_runtime(topology: Topology) -> Venv:
    return locked_runtime("proxy", topology.hosts[topology.proxy.host].python)


@functools.cache
def locked_runtime(name: str, python: str) -> Venv:
    """An environment whose every wheel is in the lock, with its hash, plus our own parts."""
    lines = [
        f"{entry.name}=={entry.version} " + " ".join(f"--hash={h}" for h in entry.hashes)
        for entry in load_lock(name, python).entries
    ]
    for part in OWN_PARTS[name]:
        wheel = own_wheel(part)
        digest = hashlib.sha256(wheel.data).hexdigest()
        lines.append(f"{wheel.name}=={wheel.version} --hash=sha256:{digest}")
    wheels = tuple(line.split()[0] for line in lines)
    return _venv(name, python, tuple(lines), wheels)


def _cuda_runtime(topology: Topology) -> Venv:
    lines = tuple(f"{name}=={topology.pins[name]}" for name in CUDA_PINS if name in topology.pins)
    return _venv("engine-cuda", topology.pins["python"], lines, ())


def _venv(name: str, python: str, lines: tuple[str, ...], wheels: tuple[str, ...]) -> Venv:
    digest = object_digest([python, sorted(lines)])
    return Venv(
        path=f"{VENVS}/{name}-{digest[:12]}",
        digest=digest,
        python=python,
        requirements=lines,
        wheels=wheels,
    )
