"""The Python environments of a host: engine and proxy, each from its own lock."""

from __future__ import annotations

import functools
import hashlib

from pdctl.desired.layout import VENVS
from pdctl.parts.lock import Lock, load_lock
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
CUDA_RUNTIME = "engine-cuda"
CUDA_PINS = ("torch", "vllm", "nixl", "lmcache")


def engine_runtime(topology: Topology, host: str) -> Venv:
    engine = topology.spec.engine
    if engine.kind == "simulator":  # `stack.python` is the played engine's
        return _locked(topology, "simulator", topology.hosts[host].python)
    if engine.device == "cpu":
        return _locked(topology, "engine-cpu", topology.pins["python"])
    return _cuda_runtime(topology)


def proxy_runtime(topology: Topology) -> Venv:
    return _locked(topology, "proxy", topology.hosts[topology.proxy.host].python)


@functools.cache
def locked_runtime(name: str, python: str, lock: Lock | None = None, *, bundled: bool = True) -> Venv:
    """An environment whose every wheel is in `lock`, or in the shipped one, with its hash; plus our parts.

    Not `bundled`, hosts fetch them from their own index, by these hashes.
    """
    lines = [entry.requirement for entry in (lock or load_lock(name, python)).entries]
    for part in OWN_PARTS.get(name, ()):
        wheel = own_wheel(part)
        digest = hashlib.sha256(wheel.data).hexdigest()
        lines.append(f"{wheel.name}=={wheel.version} --hash=sha256:{digest}")
    wheels = tuple(line.split()[0] for line in lines) if bundled else ()
    return _venv(name, python, tuple(lines), wheels)


def _locked(topology: Topology, name: str, python: str) -> Venv:
    lock = topology.lock.environments.get((name, python)) if topology.lock else None
    # Wheels for GPUs are gigabytes: they are sent only where nothing else brings them.
    bundled = name != CUDA_RUNTIME or topology.spec.offline
    return locked_runtime(name, python, lock, bundled=bundled)


def _cuda_runtime(topology: Topology) -> Venv:
    python = topology.pins["python"]
    if topology.lock and (CUDA_RUNTIME, python) in topology.lock.environments:
        return _locked(topology, CUDA_RUNTIME, python)
    lines = tuple(f"{name}=={topology.pins[name]}" for name in CUDA_PINS if name in topology.pins)
    return _venv(CUDA_RUNTIME, python, lines, ())


def _venv(name: str, python: str, lines: tuple[str, ...], wheels: tuple[str, ...]) -> Venv:
    digest = object_digest([python, sorted(lines)])
    return Venv(
        path=f"{VENVS}/{name}-{digest[:12]}",
        digest=digest,
        python=python,
        requirements=lines,
        wheels=wheels,
    )
