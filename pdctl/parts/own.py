"""Our own parts that run on hosts -> small wheels that stand in the locks beside the pinned ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pdctl import __version__, assets
from pdctl.parts.wheel import build_wheel, metadata_stub


@dataclass(frozen=True)
class Part:
    """A self-contained sub-package of pdctl that hosts get as a wheel."""

    name: str
    package: str  # its import name on the host
    source: str  # its place inside pdctl, dotted
    summary: str
    requires: tuple[str, ...] = ()
    entry_points: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnWheel:
    """A wheel that pdctl makes itself."""

    name: str
    version: str
    file: str
    data: bytes


_SERVING = ("aiohttp", "pyzmq", "msgpack")

PARTS: Mapping[str, Part] = {
    part.name: part
    for part in (
        Part(
            name="proxy",
            package="pdctl_proxy",
            source="proxy",
            summary="The proxy that sends a request to a prefiller, then to a decoder",
            requires=_SERVING,
            entry_points={"console_scripts": {"pdctl-proxy": "pdctl_proxy.__main__:main"}},
        ),
        Part(
            name="simulator",
            package="pdctl_simulator",
            source="simulator",
            summary="A simulated engine for tests and large labs; its numbers are not an engine's",
            requires=(*_SERVING, "pyyaml"),
            entry_points={"console_scripts": {"pdctl-simulator": "pdctl_simulator.__main__:main"}},
        ),
        # No torch, vLLM, LMCache or NIXL in `requires`: it is a plugin of an engine that has them pinned.
        Part(
            name="cpu-connector",
            package="pdctl_cpu_connector",
            source="contrib.cpu_connector",
            summary="vLLM plugin: LMCache's KV transfer for engines on CPU",
            entry_points={"vllm.general_plugins": {"pdctl_cpu_connector": "pdctl_cpu_connector:register"}},
        ),
    )
}

STUBS: Mapping[str, tuple[str, str]] = {
    # Must end in +cpu: vllm/platforms/__init__.py (0.32.0) finds the device by "cpu" in this version.
    "vllm-stub": ("vllm", "0.32.0+cpu"),
}


def own_wheel(name: str) -> OwnWheel:
    """The wheel of the part or stub `name`, built from what is installed now."""
    if name in STUBS:
        file, data = metadata_stub(*STUBS[name])
    else:
        part = PARTS[name]
        source = assets.package(part.source)
        file, data = build_wheel(
            source, part.package, __version__, part.requires, part.entry_points, part.summary
        )
    distribution, version, *_ = file.split("-")
    return OwnWheel(distribution.replace("_", "-"), version, file, data)
