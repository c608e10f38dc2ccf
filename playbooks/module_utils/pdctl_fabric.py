"""GPUs behind NVSwitches -> taken in by the fabric, or which are not: before that CUDA starts nothing."""

from __future__ import annotations

import re
import subprocess
import time

from ansible.module_utils.pdctl_audience import stay_for_audience
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_driver import loaded
from ansible.module_utils.pdctl_observe_deep import FIELDS, NONE, SERVICE
from ansible.module_utils.pdctl_rows import Row

SMI_S = 30  # a driver that hangs must not hang the apply
PAUSE_S = 2.0
ENDED = ("failed", "inactive", "unknown")
MANAGER = "nv-fabricmanager"


def wait_fabric(rows: list[Row], pause: float = PAUSE_S) -> None:
    """Ends when every GPU of this host has `Completed` and `Success`; `rows` are units about to start."""
    limit = max((int(row.get("fabric_s") or 0) for row in rows), default=0)
    begun = time.monotonic()
    while limit:
        stay_for_audience()
        text = _ask(["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader"])
        left, service = (
            outside(text),
            _ask(["systemctl", "is-active", SERVICE], must=False).strip() or "unknown",
        )
        if not left and (service == "active" or not registers(text)):
            return
        if service in ENDED or time.monotonic() - begun > limit:
            raise Problem(refusal(left, service, limit))
        time.sleep(pause)


def outside(text: str) -> dict[str, tuple[str, str]]:
    """{index: (state, status)} of GPUs that the fabric has not taken in: `0, In Progress, N/A`."""
    rows = [[value.strip() for value in line.split(",")] for line in text.splitlines() if line.strip()]
    found = {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}
    return {
        index: (state, status)
        for index, (state, status) in found.items()
        if state.lower() not in NONE and (state, status) != ("Completed", "Success")
    }


def registers(text: str) -> bool:
    """Whether any GPU is one that a fabric takes in."""
    rows = [line.split(",") for line in text.splitlines() if line.strip()]
    return any(len(row) == 3 and row[1].strip().lower() not in NONE for row in rows)


def refusal(left: dict[str, tuple[str, str]], service: str, limit: int) -> str:
    words = [f"GPU {index} is {state} (status {status})" for index, (state, status) in left.items()]
    when = "" if service in ENDED else f"after {limit} s "
    what = (
        f"the NVLink fabric has not taken in all GPUs, so that CUDA would start nothing: {', '.join(words)}"
        if words
        else "nothing keeps the NVLink fabric that the GPUs work with"
    )
    return (
        f"{when}{what}; {SERVICE} is {service}{versions()}: `journalctl -u {SERVICE}` tells why."
        " No engine was started"
    )


def versions() -> str:
    """Of the service and of the driver in memory: it ends where they differ (Fabric Manager user guide)."""
    try:
        said = _ask([MANAGER, "--version"], must=False)
    except Problem:
        return ""
    found = re.search(r"(\d+(?:\.\d+)+)", said)
    driver = loaded()
    if not found or not driver:
        return ""
    verdict = "" if found[1] == driver else ", which must be equal"
    return f", its version {found[1]}, the driver in memory {driver}{verdict}"


def _ask(command: list[str], must: bool = True) -> str:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SMI_S, check=False
        )
    except FileNotFoundError:
        raise Problem(f"{command[0]} is not on this host: its driver is not installed") from None
    except subprocess.TimeoutExpired:
        raise Problem(f"{command[0]} gives no answer within {SMI_S} s") from None
    text = done.stdout.decode("utf-8", "replace")
    if must and done.returncode:
        said = (text.strip().splitlines() or [f"exit status {done.returncode}"])[0]
        raise Problem(f"{command[0]}: {said}; a driver that was just installed may need a reboot")
    return text
