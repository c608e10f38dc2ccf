"""What a host says of its GPUs and NICs x what the spec declares -> what is wrong, and what to declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pdctl.hosts.attached import Port, between, declaration, gpu_addresses, nearest, ports
from pdctl.hosts.observation import Facts
from pdctl.knowledge import versions
from pdctl.knowledge.addresses import pci_key
from pdctl.knowledge.cpus import cpu_set
from pdctl.knowledge.versions import at_least
from pdctl.spec.finding import Finding, Path
from pdctl.spec.hardware import Nic
from pdctl.spec.model import Host
from pdctl.topology.affinity import chosen_by_hand, ucx_name, uses_rdma
from pdctl.topology.byhand import REMOVE, choices
from pdctl.topology.model import Instance, Topology
from pdctl.topology.pci import Relation
from pdctl.topology.placement import uses_gpus

FAR = (Relation.NODE, Relation.SYS)
LINKS = {"ib": "InfiniBand", "roce": "Ethernet"}
LOOK = "look at `ibv_devices` there, or correct `nics`"


def nic_findings(topology: Topology, index: int, facts: Facts) -> Iterator[Finding]:
    """Everything about the GPUs and NICs of one host of the spec."""
    if not uses_gpus(topology.spec):
        return
    view = _View(topology, index, facts)
    yield from _gpu_addresses(view)
    if view.host.nics and not facts.nics:
        names = ", ".join(ucx_name(nic) for nic in view.host.nics)
        yield view.finding("FACT013", f"has no RDMA device, the spec declares {names}", LOOK, "nics")
    elif view.host.nics:
        for k, nic in enumerate(view.host.nics):
            yield from _declared(view, k, nic)
    else:
        yield from _by_hand(view)
        yield from _undeclared(view)
    yield from _links(view)


@dataclass(frozen=True)
class _View:
    topology: Topology
    index: int
    facts: Facts

    @property
    def host(self) -> Host:
        return self.topology.spec.hosts[self.index]

    @property
    def instances(self) -> list[Instance]:
        """Those here that move KV through RDMA NICs."""
        spec, every = self.topology.spec, self.topology.instances
        return [each for each in every if each.host == self.host.name and uses_rdma(spec, every, each)]

    def finding(self, rule: str, message: str, hint: str, *path: str | int) -> Finding:
        return Finding(rule, ("hosts", self.index, *path), f"{self.host.name} {message}", hint)


def _declared(view: _View, k: int, nic: Nic) -> Iterator[Finding]:
    there, name = ports(view.facts), ucx_name(nic)
    if name not in there:
        yield view.finding("FACT013", f"has no `{name}`, only {', '.join(there)}", LOOK, "nics", k)
        return
    if not there[name].up:
        hint = f"look at its cable and switch (`ibv_devinfo -d {nic.name}`), or remove it from `nics`"
        yield view.finding("FACT014", f"has `{name}` {there[name].state}", hint, "nics", k)
    at = there[name].nic.pci
    if nic.pci is not None and at and pci_key(at) != pci_key(nic.pci):
        message = f"has {nic.name} at {at}, the spec says {nic.pci}"
        yield view.finding("FACT018", message, f'set `pci: "{at}"`', "nics", k, "pci")
    yield from _far(view, there[name], nic.gpus, ("nics", k, "gpus"))
    yield from _nodes(view, k, nic)


def _far(view: _View, port: Port, gpus: Iterable[int], path: Path) -> Iterator[Finding]:
    """Of GPUs that another NIC is nearer to."""
    rows: dict[tuple[Relation, str], list[int]] = {}
    for gpu in gpus:
        apart, (best, near) = between(view.facts, gpu, port.nic), nearest(view.facts, gpu)
        if apart in FAR and best is not None and near and best.rank < apart.rank:
            better = f"{', '.join(each.name for each in near)} is near ({best.words})"
            rows.setdefault((apart, better), []).append(gpu)
    for (apart, better), some in rows.items():
        message = f"has `{port.name}` far from GPU {_list(some)} ({apart.words}); {better}"
        yield view.finding("FACT015", message, "list each GPU with its nearest NIC", *path)


def _nodes(view: _View, k: int, nic: Nic) -> Iterator[Finding]:
    yield from _cpus(view, k, nic)
    known = view.facts.numa_nodes
    if nic.numa is None:
        return
    if nic.numa not in known:
        message = f"has no NUMA node {nic.numa}, only {_list(known) or 'none at all'}"
        hint = "correct `numa`, or leave it out: systemd would not start the engines"
        yield view.finding("FACT017", message, hint, "nics", k, "numa")
        return
    elsewhere: dict[int, list[int]] = {}
    for gpu in view.facts.gpus:
        if gpu.index in nic.gpus and gpu.numa >= 0 and gpu.numa != nic.numa:
            elsewhere.setdefault(gpu.numa, []).append(gpu.index)
    for node, gpus in elsewhere.items():
        message = f"has GPU {_list(gpus)} on NUMA node {node}, the spec says {nic.numa}"
        yield view.finding("FACT016", message, f"set `numa: {node}`", "nics", k, "numa")


def _cpus(view: _View, k: int, nic: Nic) -> Iterator[Finding]:
    """Fewer than the node has are fine: some may be kept for others."""
    wanted = cpu_set(nic.cpus or "")
    elsewhere: dict[str, list[int]] = {}
    for gpu in view.facts.gpus:
        there = cpu_set(gpu.cpus)
        if gpu.index in nic.gpus and gpu.numa >= 0 and there and not wanted <= there:
            elsewhere.setdefault(gpu.cpus, []).append(gpu.index)
    for cpus, gpus in elsewhere.items():
        message = f"has GPU {_list(gpus)} near the CPUs {cpus}, the spec says {nic.cpus}"
        yield view.finding("FACT016", message, f'set `cpus: "{cpus}"`', "nics", k, "cpus")


def _gpu_addresses(view: _View) -> Iterator[Finding]:
    asked, there = view.host.gpus.pci, gpu_addresses(view.facts)
    if asked is None or not there:
        return
    for gpu, (said, at) in enumerate(zip(asked, there, strict=False)):
        if pci_key(said) != pci_key(at):
            message = f"has GPU {gpu} at {at}, the spec says {said}"
            yield view.finding("FACT018", message, f'set `"{at}"`', "gpus", "pci", gpu)


def _by_hand(view: _View) -> Iterator[Finding]:
    """Variables that name a NIC of this host, where the spec declares none to tell by."""
    there = ports(view.facts)
    told: set[tuple[Path, str]] = set()
    here = [each for each in view.topology.instances if each.host == view.host.name]
    for choice in choices(view.topology.spec, here, view.topology.instances):
        port = there.get(choice.nic)
        if port is None or (choice.path, choice.nic) in told:
            continue
        told.add((choice.path, choice.nic))
        if not port.up:
            message = (
                f"{view.host.name} has `{port.name}` {port.state}, and {choice.instance.name} is to use it"
            )
            yield Finding("FACT014", choice.path, message, "name another, or look at its cable and switch")
        for far in _far(view, port, choice.instance.gpus, ()):
            yield Finding(
                "FACT020", choice.path, f"{far.message}; {choice.instance.name} is to use it", REMOVE
            )


def _undeclared(view: _View) -> Iterator[Finding]:
    spec, facts = view.topology.spec, view.facts
    mine = [each for each in view.instances if not chosen_by_hand(spec, each)]
    if not mine or not facts.nics or not facts.gpus:
        return
    names = ", ".join(ports(facts))
    if not any(port.up for port in ports(facts).values()):
        message = f"has RDMA NICs ({names}), and no port of them is active: KV would go over TCP"
        yield view.finding("FACT019", message, "look at their cables and switches (`rdma link`)")
        return
    by_rank = at_least(view.topology.pins["vllm"], versions.NIC_PER_WORKER) and any(
        len(each.gpus) > 1 for each in mine
    )
    line = declaration(facts, addresses=by_rank)
    message = f"has RDMA NICs ({names}), and the spec does not say which GPUs are near them"
    if not line:
        hint = "its /sys does not tell either: see `nvidia-smi topo -m` and declare `nics`"
    else:
        pci = ", ".join(f'"{at}"' for at in gpu_addresses(facts)) if by_rank else ""
        more = f", and give `gpus` the key `pci: [{pci}]`" if pci else ""
        hint = f"add `{line}` to this host{more}"
    yield view.finding("FACT019", message, hint)


def _links(view: _View) -> Iterator[Finding]:
    network = view.host.network
    if network is None or network.kind not in LINKS or not view.instances:
        return
    wanted = LINKS[network.kind]
    declared = {ucx_name(nic) for nic in view.host.nics}
    used = [each for name, each in ports(view.facts).items() if (name in declared if declared else each.up)]
    other = [each for each in used if each.port.link and each.port.link != wanted]
    if other and len(other) == len(used):
        kind = next(kind for kind, link in LINKS.items() if link != wanted)
        message = f"has `{other[0].name}` on {other[0].port.link}, `network.kind` says {network.kind}"
        yield view.finding("FACT021", message, f"set `kind: {kind}`", "network", "kind")


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
