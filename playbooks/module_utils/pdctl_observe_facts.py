"""This host in a few facts that a plan or a sizing needs, and the files its bundle holds."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import time
from typing import Any

from ansible.module_utils.pdctl_observe_pci import gpu_place, numa_nodes, rdma_nics
from ansible.module_utils.pdctl_rows import Row

# nvidia-smi --help-query-gpu
GPU_FIELDS = (
    "index",
    "uuid",
    "name",
    "memory.total",
    "memory.used",
    "driver_version",
    "pci.bus_id",
    "mig.mode.current",
)
GPU_PATIENCE_S = 20  # a driver that hangs must not hang the probe


def facts(notes: list[str]) -> dict[str, Any]:
    uname = os.uname()
    release = _os_release()
    return {
        "hostname": uname.nodename,
        "python": platform.python_version(),
        "kernel": uname.release,
        "arch": uname.machine,
        "os_id": release.get("ID", ""),
        "os_version": release.get("VERSION_ID", ""),
        "systemd": _systemd_version(),
        "boot_id": _text("/proc/sys/kernel/random/boot_id").strip(),
        "time_s": time.time(),
        "root": os.geteuid() == 0,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "disk_free": {path: disk_free(path) for path in ("/opt", "/opt/pdctl", "/etc", "/var")},
        "gpus": _gpus(notes),
        "nics": rdma_nics(),
        "numa_nodes": numa_nodes(),
        "driver": loaded_driver(_text("/proc/driver/nvidia/version")),
    }


def disk_free(path: str) -> int:
    """Bytes that may still be written under `path`, or under its nearest folder that exists."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    info = os.statvfs(path)
    return info.f_bavail * info.f_frsize


def bundle_files(bundle: str) -> dict[str, int]:
    """{path below the bundle: size}."""
    found = {}
    for folder, _, names in os.walk(bundle):
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):  # somebody fills it just now: what is there, counts
                found[os.path.relpath(path, bundle)] = os.stat(path).st_size
    return found


def parse_gpus(text: str) -> list[dict[str, Any]]:
    """Rows of `nvidia-smi --format=csv,noheader,nounits`; memory in MiB, as it prints it."""
    gpus = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(GPU_FIELDS):
            row: Row = dict(zip((name.replace(".", "_") for name in GPU_FIELDS), values))
            row["index"] = int(values[0])
            for name in ("memory_total", "memory_used"):
                row[name] = int(row[name]) if row[name].isdigit() else None
            gpus.append(row)
    return gpus


def loaded_driver(text: str) -> str:
    """The version of the NVIDIA kernel module that runs, of /proc/driver/nvidia/version; empty without one.

    `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (...)`
    """
    found = re.search(r"Kernel Module\b.*?\s(\d+(?:\.\d+)+)\s", text)
    return found.group(1) if found else ""


def _gpus(notes: list[str]) -> list[dict[str, Any]]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, "--query-gpu=" + ",".join(GPU_FIELDS), "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            query, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=GPU_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        notes.append(f"nvidia-smi: no answer within {GPU_PATIENCE_S} s")
        return []
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        notes.append("nvidia-smi: " + (text.strip().splitlines() or [f"exit status {done.returncode}"])[0])
        return []
    return [row | gpu_place(row["pci_bus_id"]) for row in parse_gpus(text)]


def _systemd_version() -> str:
    try:
        done = subprocess.run(
            ["systemctl", "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
    except FileNotFoundError:
        return ""
    words = done.stdout.decode("utf-8", "replace").split()
    return words[1] if len(words) > 1 else ""


def _os_release() -> dict[str, str]:
    pairs = (line.partition("=")[::2] for line in _text("/etc/os-release").splitlines() if "=" in line)
    return {name: value.strip().strip("\"'") for name, value in pairs}


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""
