"""OFED of this host by its own word, and what the kernel says of an nvidia-peermem that it did not take."""

from __future__ import annotations

import re
import subprocess

from ansible.module_utils.pdctl_observe_stack import loaded_modules
from ansible.module_utils.pdctl_rows import Row

OFED = "doca-ofed"
PEERMEM = "nvidia_peermem"
ROOT = "/"
# Linux, kernel/module/version.c: a module asks for a symbol as another build of its owner had it.
REFUSED = re.compile(rf"{PEERMEM}: disagrees about version of symbol \S+")
PATIENCE_S = 20


def peermem_facts(asked: list[Row]) -> Row:
    """Nothing where no OFED is asked about."""
    if not any(row["kind"] == "package" and row["name"] == OFED for row in asked):
        return {}
    return {"ofed": ofed(), "refused": peermem_refused()}


def ofed() -> str:
    """`OFED-internal-25.04-0.6.1` of `ofed_info -s`."""
    return _said("ofed_info", "-s").strip().rstrip(":")


def peermem_refused() -> str:
    """The kernel's last word on it since it booted, unless the module is loaded by now."""
    if PEERMEM in loaded_modules(ROOT):
        return ""
    return next(iter(REFUSED.findall(_said("dmesg"))[-1:]), "")


def _said(*command: str) -> str:
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
