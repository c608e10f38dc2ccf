"""The journal of each engine's present run -> what its UCX said minutes before transfers fail, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pdctl.desired.layout import unit_name
from pdctl.errors import PdctlError
from pdctl.hosts.doors import Doors
from pdctl.hosts.session import Session
from pdctl.knowledge.transports import UCX_COMPLAINTS
from pdctl.topology.model import Instance, Topology

# UCX speaks as an engine starts: the first lines of a run, which may be gigabytes long by now.
LINES = 20000
SCRIPT = (
    'id=$(systemctl show --property InvocationID --value "$1"); [ -n "$id" ] || exit 0;'
    ' journalctl --quiet --all --no-pager --output=cat "_SYSTEMD_INVOCATION_ID=$id"'
    f' | head -n {LINES} | grep -m 1 -aE "$2"'
)
TIMEOUT_S = 20.0


def complaints(topology: Topology, doors: Doors, instances: Iterable[Instance]) -> dict[str, str]:
    """By instance, of those that have one. A host that gives no answer says nothing here: its engines are
    asked otherwise, too."""
    moving = list(instances) if topology.spec.serving.mode == "disaggregated" else []
    with ThreadPoolExecutor(max_workers=16) as pool:
        asked = {
            each.name: pool.submit(_of, doors.session(each.host), unit_name(topology.cluster, each.name))
            for each in moving
        }
        found = {name: future.result() for name, future in asked.items()}
    return {name: line for name, line in found.items() if line}


def _of(session: Session, unit: str) -> str:
    try:
        result = session.run(b"", ["sh", "-c", SCRIPT, "sh", unit, UCX_COMPLAINTS], TIMEOUT_S)
    except PdctlError:
        return ""
    line = result.out.decode(errors="replace").strip()
    return line[line.find("UCX") :]
