"""Topology, model and declared networks -> whether KV leaves a host as fast as its prefillers compute it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pdctl.knowledge.gpus import GPUS
from pdctl.knowledge.models import KnownModel
from pdctl.knowledge.speed import DOUBTFUL, PROMPT, TOO_SLOW, link_bytes_per_s, prefill_s
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster, Host
from pdctl.topology.known import Known
from pdctl.topology.kv import chunk_bytes
from pdctl.topology.model import Instance, Role
from pdctl.topology.placement import uses_gpus


class Flow(NamedTuple):
    """KV per second of prefillers that never wait, over what the network of `host` carries."""

    host: str
    way: str  # "leaves" or "enters"
    wanted: float  # bytes per second
    carried: float

    @property
    def ratio(self) -> float:
        return self.wanted / self.carried


def flows(cluster: Cluster, found: Known, instances: Sequence[Instance]) -> list[Flow]:
    """Of every host with a declared network: what leaves its prefillers, what enters for its decoders."""
    facts = found.facts
    if not uses_gpus(cluster) or found.shape is None or facts is None or not facts.active or not facts.hidden:
        return []
    hosts = {host.name: host for host in cluster.hosts}
    if not any(host.network for host in cluster.hosts):
        return []
    prefillers = [i for i in instances if i.role is Role.PREFILLER]
    decoders = Counter(i.host for i in instances if i.role is Role.DECODER)
    produced: Counter[str] = Counter()
    for instance in prefillers:
        produced[instance.host] += int(_rate(facts, found, hosts[instance.host], instance.tensor_parallel))
    total, receivers = produced.total(), decoders.total()
    rows = []
    for name, host in hosts.items():
        if host.network is None or not receivers:
            continue
        carried = link_bytes_per_s(host.network.gbit, host.network.kind)
        here = decoders[name] / receivers
        rows.append(Flow(name, "leaves", produced[name] * (1 - here), carried))
        rows.append(Flow(name, "enters", (total - produced[name]) * here, carried))
    return [row for row in rows if row.wanted]


def slow(cluster: Cluster, flows: Sequence[Flow]) -> Iterator[Finding]:
    """The worst host for each rule only: thousands are alike."""
    index = {host.name: i for i, host in enumerate(cluster.hosts)}
    for rule, over, until in (("NET001", TOO_SLOW, float("inf")), ("NET002", DOUBTFUL, TOO_SLOW)):
        rows = [row for row in flows if over < row.ratio <= until]
        if not rows:
            continue
        worst = max(rows, key=lambda row: row.ratio)
        names = {row.host for row in rows}
        more = f", and that of {len(names) - 1} more hosts similarly" if len(names) > 1 else ""
        yield _finding(rule, index, worst, more)


def unlike(cluster: Cluster, instances: Sequence[Instance]) -> Iterator[Finding]:
    """Hosts that exchange KV over networks of two kinds: one finding for each two kinds."""
    if not uses_gpus(cluster):
        return
    index = {host.name: i for i, host in enumerate(cluster.hosts)}
    sides: list[dict[str, str]] = []
    for role in (Role.PREFILLER, Role.DECODER):
        names = dict.fromkeys(instance.host for instance in instances if instance.role is role)
        networks = {name: cluster.hosts[index[name]].network for name in names}
        sides.append({network.kind: name for name, network in reversed(networks.items()) if network})
    senders, receivers = sides
    told: set[frozenset[str]] = set()
    for ours, sender in senders.items():
        for theirs, receiver in receivers.items():
            if ours == theirs or frozenset((ours, theirs)) in told:
                continue
            told.add(frozenset((ours, theirs)))
            plain = "ethernet" in (ours, theirs)
            yield Finding(
                "NET004" if plain else "NET003",
                ("hosts", index[receiver], "network", "kind"),
                f"prefillers on `{sender}` have `{ours}` and decoders here `{theirs}`: "
                + ("between them KV goes over TCP" if plain else "neither can write into the other's memory"),
                "correct `kind`, or place prefillers and decoders on hosts of one network",
            )


def _finding(rule: str, index: dict[str, int], worst: Flow, more: str) -> Finding:
    whose = "its prefillers compute" if worst.way == "leaves" else "prefillers compute for its decoders"
    return Finding(
        rule,
        ("hosts", index[worst.host], "network"),
        f"{whose} about {_gb(worst.wanted)} GB of KV a second and its network carries about"
        f" {_gb(worst.carried)}: moving takes {worst.ratio:.0%} of the time of computing{more}",
        "put prefillers and decoders that work together on one host, use a faster network or fewer"
        " prefillers a host",
    )


def _rate(facts: KnownModel, found: Known, host: Host, tensor_parallel: int) -> float:
    """Bytes of KV per second that one prefiller computes; 0 on a GPU that is not known."""
    gpu = GPUS.get(host.gpus.model or "")
    if gpu is None or found.shape is None:
        return 0.0
    tokens = min(PROMPT, found.max_model_len or PROMPT)
    seconds = prefill_s(
        tokens, facts.active, facts.layers, facts.hidden, facts.experts, tensor_parallel, gpu.bf16_tflops
    )
    ranks = 1 if facts.mla else tensor_parallel  # of a latent vector one copy is enough
    return chunk_bytes(found.shape, tensor_parallel, 1) * ranks * tokens / seconds


def _gb(value: float) -> str:
    return f"{value / 1e9:.1f}"
