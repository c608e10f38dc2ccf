"""The lab's network: a bridge in a namespace of its own, and a cable to a namespace per host.

The machine's own namespace gets no address, route or bridge. Namespaces are files on the lab's tmpfs, not
entries of `ip netns`, so that unmounting the tmpfs removes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pdctl.lab.mounts import is_mounted
from pdctl.lab.paths import LabPaths
from pdctl.lab.processes import run
from pdctl.lab.state import GATEWAY, Host

BRIDGE = "br0"


def wire(paths: LabPaths, hosts: Sequence[Host]) -> None:
    """Make what is missing of the bridge and of each host's cable."""
    if _make_namespace(paths.lab_netns):
        setup = f"link set lo up\nlink add {BRIDGE} type bridge\naddr add {GATEWAY}/24 dev {BRIDGE}\n"
        _ip(paths.lab_netns, setup + f"link set {BRIDGE} up\n")
    for host in hosts:
        _make_namespace(paths.netns(host.name))
    present = set(plugged(paths))
    new = [host for host in hosts if cable(host) not in present]
    _ip(paths.lab_netns, "".join(_cable_setup(paths, host) for host in new))
    for host in new:
        _ip(
            paths.netns(host.name),
            f"link set lo up\naddr replace {host.address}/24 dev eth0\n"
            f"link set eth0 up\nroute replace default via {GATEWAY}\n",
        )


def plug(paths: LabPaths, host: Host, state: str) -> None:
    """Set the host's cable `up` or `down`."""
    _ip(paths.lab_netns, f"link set {cable(host)} {state}\n")


def plugged(paths: LabPaths) -> dict[str, bool]:
    """Every cable of the lab, and whether it is plugged in."""
    if not is_mounted(paths.lab_netns):
        return {}
    links = json.loads(
        run("nsenter", f"--net={paths.lab_netns}", "ip", "-json", "link", "show", "type", "veth")
    )
    return {link["ifname"]: "UP" in link["flags"] for link in links}


def cable(host: Host) -> str:
    """The bridge's end of the host's cable; by number, since interface names end at 15 characters."""
    return f"v{host.number}"


def _cable_setup(paths: LabPaths, host: Host) -> str:
    name = cable(host)
    peer = f"peer name eth0 netns {paths.netns(host.name)}"
    return f"link add {name} type veth {peer}\nlink set {name} master {BRIDGE}\nlink set {name} up\n"


def _make_namespace(path: Path) -> bool:
    """Whether the namespace had to be made."""
    if is_mounted(path):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    run("unshare", f"--net={path}", "true")
    return True


def _ip(netns: Path, batch: str) -> None:
    if batch:
        run("nsenter", f"--net={netns}", "ip", "-batch", "-", stdin=batch)
