"""What the UCX of each engine offers on its host -> KV that would have no way, or silently another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pdctl.desired.engine import environment
from pdctl.hosts.ready import Ucx
from pdctl.knowledge.transports import CUDA_COPY, CUDA_IPC, RDMA, TCP, chosen, lacking
from pdctl.knowledge.variables import UCX_NET_DEVICES, UCX_TLS
from pdctl.spec.finding import Finding
from pdctl.topology.affinity import uses_rdma
from pdctl.topology.model import Instance

if TYPE_CHECKING:
    from pdctl.hosts.suitability import View

DECLARED = ("ib", "roce")


def transports(view: View) -> Iterator[Finding]:
    """Nothing of engines that are not installed yet, and nothing where nobody asked."""
    if view.facts.rdma.refused:
        message = f"did not take nvidia-peermem: the kernel log has `{view.facts.rdma.refused}`"
        hint = (
            "it was built against another RDMA stack: rebuild driver modules (dkms build -m nvidia -v VERSION"
            " --force, dkms install likewise), then modprobe nvidia-peermem"
        )
        yield view.finding("FACT036", message, hint)
    for instance, ucx in _asked(view):
        yield from _missing(view, instance, ucx)
        yield from _no_rdma(view, instance, ucx)


def ucx_found(view: View) -> str:
    """Of the row in doctor's table: what most engines have, and who has something else."""
    rows = [(instance.name, ucx) for instance, ucx in _asked(view)]
    by_words: dict[str, list[str]] = {}
    for name, ucx in rows:
        by_words.setdefault(f"{ucx.source or 'UCX'}: {', '.join(ucx.transports)}", []).append(name)
    if len(by_words) < 2:
        return next(iter(by_words), "")
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in by_words.items())


def rdma_wanted(view: View, instance: Instance) -> bool:
    """Whether the spec says that its KV goes over RDMA: by a NIC, a kind of network, or a transport."""
    spec, host = view.topology.spec, view.topology.spec.hosts[view.index]
    if not uses_rdma(spec, view.topology.instances, instance):
        return False
    tls = environment(view.topology, instance).get(UCX_TLS, "")
    named = bool(tls) and not tls.startswith("^") and bool(chosen(tls, RDMA))
    return bool(host.nics) or named or (host.network is not None and host.network.kind in DECLARED)


def _missing(view: View, instance: Instance, ucx: Ucx) -> Iterator[Finding]:
    """Each name that is asked for must be offered, and what carries the memory of GPUs must be left."""
    tls = environment(view.topology, instance).get(UCX_TLS, "")
    missing, left = lacking(tls, ucx.transports), chosen(tls, ucx.transports)
    together = all(each.host == instance.host for each in view.topology.instances)
    needed = CUDA_IPC if together else CUDA_COPY
    if needed not in left and needed not in missing:
        missing.append(needed)
    if not missing:
        return
    why = f"UCX_TLS is `{tls}`" if tls else "UCX_TLS is not set"
    has = ", ".join(ucx.transports)
    message = (
        f"has no {', '.join(missing)} for {instance.name} ({why}): its {ucx.source or 'UCX'} offers {has}"
    )
    hint = (
        "a UCX built with CUDA has cuda_copy and cuda_ipc once the driver is loaded; correct UCX_TLS where it"
        " excludes them"
    )
    yield view.finding("FACT038", message, hint)


def _no_rdma(view: View, instance: Instance, ucx: Ucx) -> Iterator[Finding]:
    variables = environment(view.topology, instance)
    if not rdma_wanted(view, instance):
        return
    named = [name for name in variables.get(UCX_NET_DEVICES, "").split(",") if name and name != "all"]
    usable = {
        name
        for name in chosen(variables.get(UCX_TLS, ""), ucx.transports)
        if name in RDMA and (not named or set(named) & set(ucx.transports[name]))
    }
    if usable:
        return
    where = f" on {', '.join(named)}" if named else ""
    other = f"; KV would go over {TCP}" if TCP in ucx.transports else ""
    message = (
        f"has no RDMA transport{where} for {instance.name}, which the spec wants: its {ucx.source or 'UCX'}"
        f" offers {', '.join(ucx.transports)}{other}"
    )
    hint = "see that the port is ACTIVE (`ibstat`), and that /dev/infiniband and rdma-core are there"
    yield view.finding("FACT037", message, hint)


def _asked(view: View) -> Iterator[tuple[Instance, Ucx]]:
    deep = view.facts.deep
    for instance in view.topology.instances:
        if deep and instance.host == view.host and instance.name in deep.ucx:
            yield instance, deep.ucx[instance.name]
