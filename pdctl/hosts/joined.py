"""What a host said when it was asked for longer -> links, fabric and names that are not as needed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from pdctl.knowledge.gpus import GPUS
from pdctl.spec.finding import Finding
from pdctl.state import Key

if TYPE_CHECKING:
    from pdctl.hosts.suitability import View

REGISTERED = ("Completed", "Success")
FABRIC_PACKAGES = ("cuda-drivers-fabricmanager-", "nvidia-fabricmanager")


def joined(view: View) -> Iterator[Finding]:
    """Nothing where nobody asked."""
    if view.facts.deep is None:
        return
    yield from _names(view)
    board = GPUS.get(view.topology.hosts[view.host].gpu_model)
    if not view.used_gpus or board is None or not board.nvswitch:
        return
    left = unregistered(view)
    if left and not awaits_fabric(view):
        words = ", ".join(f"GPU {gpu} is {' '.join(said)}" for gpu, said in left.items())
        service = view.facts.deep.fabric_manager or "unknown"
        message = f"has GPUs outside its NVLink fabric: {words}; nvidia-fabricmanager is {service}"
        hint = "journalctl -u nvidia-fabricmanager tells why; its version must be the driver's"
        yield view.finding("FACT031", message, hint, "gpus")
    if not left:
        yield from _links(view)


def unregistered(view: View) -> dict[int, tuple[str, str]]:
    """GPUs that engines use and that the fabric has not taken in, with what they say."""
    deep = view.facts.deep
    known = deep.fabric if deep else {}
    return {gpu: said for gpu, said in known.items() if gpu in view.used_gpus and said != REGISTERED}


def awaits_fabric(view: View) -> bool:
    """Whether an apply has yet to install Fabric Manager."""
    return any(_is_fabric(key) and key not in view.glance.seen.state for key in view.wanted)


def _is_fabric(key: Key) -> bool:
    return key.id.removeprefix("package:").startswith(FABRIC_PACKAGES)


def _links(view: View) -> Iterator[Finding]:
    deep = view.facts.deep
    assert deep is not None
    pairs = [f"{one}-{two}" for one, two in combinations(view.used_gpus, 2)]
    apart = {pair: deep.links[pair] for pair in pairs if not deep.links.get(pair, "NV").startswith("NV")}
    if apart:
        words = ", ".join(f"{pair} {link}" for pair, link in list(apart.items())[:4])
        more = f" and {len(apart) - 4} more pairs" if len(apart) > 4 else ""
        message = f"has GPUs that NVLink does not join: {words}{more}"
        hint = "see `nvidia-smi topo -m` and `systemctl status nvidia-fabricmanager` there"
        yield view.finding("FACT030", message, hint, "gpus")
    down = {gpu: count for gpu, count in deep.inactive.items() if count and gpu in view.used_gpus}
    if down:
        words = ", ".join(f"{count} of GPU {gpu}" for gpu, count in down.items())
        hint = "nvidia-smi nvlink --status, and dmesg for Xid 74; reseat or replace the board"
        yield view.finding("FACT030", f"has NVLinks that are down: {words}", hint, "gpus")


def _names(view: View) -> Iterator[Finding]:
    deep = view.facts.deep
    lost = [name for name, addresses in (deep.names if deep else {}).items() if not addresses]
    if lost:
        hint = "getent ahosts NAME there; mend its name servers, or set HTTPS_PROXY in `env`"
        yield view.finding("FACT032", f"cannot look up {', '.join(lost)}", hint)
