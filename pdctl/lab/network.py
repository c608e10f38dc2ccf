"""The lab's network: a bridge in a namespace of its own, and a cable to a namespace per host.

The machine's own namespace gets no address, route or bridge. Namespaces are files on the lab's tmpfs, not
entries of `ip netns`, so that unmounting the tmpfs removes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pdctl.errors import LabError
from pdctl.lab.mounts import is_mounted, unmount_under
from pdctl.lab.paths import LabPaths
from pdctl.lab.processes import run
from pdctl.lab.state import GATEWAY, Host

BRIDGE = "br0"


def wire(paths: LabPaths, hosts: Sequence[Host]) -> None:
    """Make what is missing of the bridge and of each host's cable; what was left half-made is made again."""
    if not _mark(paths.lab_netns).exists():
        _new_namespace(paths.lab_netns)
        setup = f"link set lo up\nlink add {BRIDGE} type bridge\naddr add {GATEWAY}/24 dev {BRIDGE}\n"
        _ip(paths.lab_netns, setup + f"link set {BRIDGE} up\n")
        _mark(paths.lab_netns).touch()
    new = [host for host in hosts if not _mark(paths.netns(host.name)).exists()]
    half_made = plugged(paths).keys() & {cable(host) for host in new}
    _ip(paths.lab_netns, "".join(f"link del {name}\n" for name in half_made))
    for host in new:
        _new_namespace(paths.netns(host.name))
    _ip(paths.lab_netns, "".join(_cable_setup(paths, host) for host in new))
    for host in new:
        _ip(
            paths.netns(host.name),
            f"link set lo up\naddr add {host.address}/24 dev eth0\n"
            f"link set eth0 up\nroute add default via {GATEWAY}\n",
        )
        _mark(paths.netns(host.name)).touch()


def plug(paths: LabPaths, hosts: Sequence[Host], state: Literal["up", "down"]) -> None:
    """Set the cables of `hosts` up or down.

    Once they are up, nobody's search for their addresses that began before may end a new connection.
    """
    if not is_mounted(paths.lab_netns):
        raise LabError(f"the lab in {paths.directory} is not up", hint="pdctl lab up")
    _ip(paths.lab_netns, "".join(f"link set {cable(host)} {state}\n" for host in hosts))
    if state == "up":
        _ip(paths.lab_netns, f"neigh flush dev {BRIDGE}\n")


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
    peer = f'peer name eth0 netns "{paths.netns(host.name)}"'  # quoted: ip splits a batch at spaces
    return f"link add {name} type veth {peer}\nlink set {name} master {BRIDGE}\nlink set {name} up\n"


def _new_namespace(path: Path) -> None:
    """An empty network namespace, kept alive by a mount on the file `path`."""
    unmount_under(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    run("unshare", f"--net={path}", "true")


def _mark(netns: Path) -> Path:
    """There once the namespace is wired completely."""
    return netns.with_suffix(".wired")


def _ip(netns: Path, batch: str) -> None:
    if batch:
        run("nsenter", f"--net={netns}", "ip", "-batch", "-", stdin=batch)
