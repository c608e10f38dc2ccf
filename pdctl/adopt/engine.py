"""Process -> Engine: one instance as its command line, variables and files describe it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pdctl.adopt.lmcache import Lmcache, read_lmcache
from pdctl.adopt.observed import Gpu, Process, Seen
from pdctl.adopt.words import Command, after_program, read_words
from pdctl.knowledge.adoption import SIDE_CHANNEL_DEFAULT, SIDE_CHANNEL_DEFAULT_OLD
from pdctl.knowledge.versions import DEFAULT_PINS, SIDE_CHANNEL_PER_INSTANCE, at_least
from pdctl.topology.model import Role

LMCACHE = ("LMCacheConnectorV1", "LMCacheConnectorV1Dynamic")
NIXL = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")
SIDES = {"kv_producer": Role.PREFILLER, "kv_consumer": Role.DECODER}
PD_SIDES = {"sender": Role.PREFILLER, "receiver": Role.DECODER}
VLLM_PORT_DEFAULT = 8000  # cli_args.py
VLLM_MODEL_DEFAULT = "Qwen/Qwen3-0.6B"  # config/model.py since 0.9


@dataclass(frozen=True)
class Engine:
    """One engine. `role` is None where neither connector nor LMCache says which side it plays."""

    host: str
    process: Process
    command: Command
    simulator: Mapping[str, Any] | None  # its parameters, if it is one
    model: str
    transfer: Mapping[str, Any]
    connector: str  # lmcache, nixl, nothing, or a name that pdctl has no counterpart for
    lmcache: Lmcache
    role: Role | None
    tensor_parallel: int
    port: int
    gpus: tuple[int, ...]
    foreign_gpus: tuple[str, ...]  # named, and not among the host's

    @property
    def label(self) -> str:
        return f"{self.host}/{self.process.label}"

    @property
    def vllm(self) -> str:
        return str(self.versions.get("vllm") or DEFAULT_PINS[("vllm", "cuda")]["vllm"])

    @property
    def versions(self) -> Mapping[str, str]:
        """Of what it serves with; a simulator says which it plays."""
        if self.simulator is None:
            return self.process.versions
        named = {name: self.simulator.get(f"{name}_version") for name in ("vllm", "lmcache")}
        return {name: str(value) for name, value in named.items() if value}

    @property
    def cpu(self) -> bool:
        """vLLM built for CPU says so in its version; its workers read VLLM_CPU_*."""
        environment = self.process.environment
        return "+cpu" in self.versions.get("vllm", "") or any(n.startswith("VLLM_CPU_") for n in environment)

    @property
    def side_channel(self) -> tuple[int, ...]:
        """Ports that NIXL's side channel takes: one, or in older versions one per rank."""
        each = at_least(self.vllm, SIDE_CHANNEL_PER_INSTANCE)
        default = SIDE_CHANNEL_DEFAULT if each else SIDE_CHANNEL_DEFAULT_OLD
        given = self.process.environment.get("VLLM_NIXL_SIDE_CHANNEL_PORT", "")
        first = int(given) if given.isdecimal() else default
        return tuple(range(first, first + (1 if each else self.tensor_parallel)))

    @property
    def told_addresses(self) -> list[str]:
        """Addresses of its own host that it tells to peers or binds."""
        environment = self.process.environment
        given = [
            self.lmcache.get("pd_peer_host"),
            environment.get("VLLM_NIXL_SIDE_CHANNEL_HOST"),
            environment.get("VLLM_HOST_IP"),
            self.command.text("host"),
        ]
        return [str(address) for address in given if address]


def read_engine(seen: Seen, process: Process) -> Engine:
    command = read_words(after_program(process.argv), process.files)
    given = command.flags.get("kv-transfer-config")
    transfer = _inner(given if isinstance(given, dict) else {})
    lmcache = read_lmcache(process, transfer)
    tensor_parallel = command.number("tensor-parallel-size") or 1
    gpus, foreign = gpu_indexes(process, seen.answer.facts.gpus, tensor_parallel)
    return Engine(
        host=seen.name,
        process=process,
        command=command,
        simulator=_simulator(process),
        model=_model(command),
        transfer=transfer,
        connector=_connector(transfer, lmcache),
        lmcache=lmcache,
        role=_role(transfer, lmcache),
        tensor_parallel=tensor_parallel,
        port=command.number("port") or VLLM_PORT_DEFAULT,
        gpus=gpus,
        foreign_gpus=foreign,
    )


def gpu_indexes(
    process: Process, gpus: Sequence[Gpu], wanted: int
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Indexes of the GPUs that its ranks use, and words that name none.

    CUDA_VISIBLE_DEVICES holds indexes, UUIDs or their beginnings; without it what nvidia-smi shows counts,
    then the first ones.
    """
    named = process.environment.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        used = tuple(sorted(gpu.index for gpu in gpus if gpu.uuid in process.gpus))
        return (used or tuple(gpu.index for gpu in gpus))[:wanted], ()
    found: list[int] = []
    foreign: list[str] = []
    for word in [w.strip() for w in named.split(",") if w.strip()]:
        if word.isdecimal() and (not gpus or any(gpu.index == int(word) for gpu in gpus)):
            found.append(int(word))
        elif match := [gpu.index for gpu in gpus if word.startswith("GPU-") and gpu.uuid.startswith(word)]:
            found.append(match[0])
        elif word != "-1":
            foreign.append(word)
    return tuple(found[:wanted]), tuple(foreign)


def _inner(transfer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of several connectors the one that moves KV between the sides, if it is among them."""
    extra = transfer.get("kv_connector_extra_config")
    several = extra.get("connectors") if isinstance(extra, dict) else None
    if transfer.get("kv_connector") != "MultiConnector" or not isinstance(several, list):
        return transfer
    movers = [c for c in several if isinstance(c, dict) and c.get("kv_connector") in NIXL]
    return {**movers[0], "kv_role": transfer.get("kv_role")} if movers else transfer


def _connector(transfer: Mapping[str, Any], lmcache: Lmcache) -> str:
    name = str(transfer.get("kv_connector") or "")
    if name in LMCACHE:
        return "lmcache" if _disaggregates(transfer, lmcache) else "lmcache-tier"
    return "nixl" if name in NIXL else name


def _disaggregates(transfer: Mapping[str, Any], lmcache: Lmcache) -> bool:
    """LMCache without PD is a tier of memory below one engine."""
    return lmcache.true("enable_pd") or "pd_role" in lmcache.keys or str(transfer.get("kv_role")) in SIDES


def _role(transfer: Mapping[str, Any], lmcache: Lmcache) -> Role | None:
    if not transfer or _connector(transfer, lmcache) == "lmcache-tier":
        return Role.SERVER
    return SIDES.get(str(transfer.get("kv_role"))) or PD_SIDES.get(str(lmcache.get("pd_role")))


def _model(command: Command) -> str:
    words = [word for word in command.positional if word != "serve"]
    return command.text("model") or (words[0] if words else VLLM_MODEL_DEFAULT)


def _simulator(process: Process) -> Mapping[str, Any] | None:
    if not any("pdctl_simulator" in word or "pdctl-simulator" in word for word in process.argv[:4]):
        return None
    try:
        given = json.loads(process.environment.get("PDCTL_SIMULATOR") or "{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}
