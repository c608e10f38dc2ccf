"""What takes this host longer to find out, for `doctor`: NVLink, the fabric, names that it looks up."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

from ansible.module_utils.pdctl_observe_ucx import ucx_facts
from ansible.module_utils.pdctl_rows import Row

# nvidia-smi --help-query-gpu; the same as "Fabric: State, Status" of `nvidia-smi -q`.
FIELDS = "index,fabric.state,fabric.status"
# What a driver says that knows no registration, as with GPUs before Hopper.
NONE = ("n/a", "[n/a]", "[not supported]", "not supported")
SERVICE = "nvidia-fabricmanager"
PATIENCE_S = 20  # for each answer: a driver or a name server that hangs must not hang the probe
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # nvidia-smi underlines the matrix's head, also in a pipe


def deep_facts(asked: Row) -> Row:
    """`asked`: `gpus`, whether to look at their links, and `names` to look up."""
    known: Row = {"names": addresses(asked.get("names", [])), "ucx": ucx_facts(asked.get("ucx", {}))}
    if not asked.get("gpus") or shutil.which("nvidia-smi") is None:
        return known
    return {
        **known,
        "links": parse_topology(_said("nvidia-smi", "topo", "-m")),
        "inactive": parse_links(_said("nvidia-smi", "nvlink", "--status")),
        "fabric": parse_fabric(_said("nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader")),
        "fabric_manager": _said("systemctl", "is-active", SERVICE, must=False).strip(),
    }


def parse_topology(text: str) -> dict[str, str]:
    """{`0-1`: `NV18`} of each pair of GPUs in the matrix of `nvidia-smi topo -m`."""
    rows = [line.split() for line in COLOURS.sub("", text).splitlines()]
    head = next((row for row in rows if row[:1] == ["GPU0"] and row[1:2] != ["X"]), [])
    columns = [name for name in head if re.fullmatch(r"GPU\d+", name)]
    found = {}
    for row in rows:
        if row and row[0] in columns and row is not head:
            for name, link in zip(columns, row[1:]):
                one, two = int(row[0][3:]), int(name[3:])
                if one < two:
                    found[f"{one}-{two}"] = link
    return found


def parse_links(text: str) -> dict[str, int]:
    """{GPU: how many of its links are down} of `nvidia-smi nvlink --status`; `Link 3: <inactive>` is one."""
    found: dict[str, int] = {}
    gpu = ""
    for line in text.splitlines():
        begin = re.match(r"GPU (\d+):", line)
        if begin:
            gpu = begin.group(1)
        elif gpu and re.match(r"\s+Link \d+:", line):
            found[gpu] = found.get(gpu, 0) + ("inactive" in line.lower())
    return found


def parse_fabric(text: str) -> dict[str, list[str]]:
    """{GPU: [state, status]} of those that a fabric has to take in."""
    rows = [[value.strip() for value in line.split(",")] for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) == 3 and row[1].lower() not in NONE}


def addresses(names: Iterable[str]) -> dict[str, list[str]]:
    """As this host finds them, by its own order of files and name servers; none where it does not."""
    found = {}
    for name in names:
        rows = [line.split() for line in _said("getent", "ahosts", name).splitlines()]
        found[name] = list(dict.fromkeys(row[0] for row in rows if row))
    return found


def _said(*command: str, must: bool = True) -> str:
    """Nothing of a program that is not there, hangs, or fails where it `must` not."""
    known: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "timeout": PATIENCE_S}
    try:
        done = subprocess.run(command, check=False, **known)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return "" if must and done.returncode else done.stdout.decode("utf-8", "replace")
