"""The driver in memory and its libraries on disk: where the two differ, an engine that starts only fails."""

from __future__ import annotations

from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_family import upstream
from ansible.module_utils.pdctl_observe_facts import loaded_driver
from ansible.module_utils.pdctl_observe_packages import dpkg_status
from ansible.module_utils.pdctl_observe_stack import USER_SPACE, loaded_modules
from ansible.module_utils.pdctl_record import Record
from ansible.module_utils.pdctl_rows import Row

VERSION = "/proc/driver/nvidia/version"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
PROXY = "proxy"
# Put where, and only where, the driver is pinned (pdctl.desired.packages).
BAN = "file:/etc/modprobe.d/pdctl-{}-nouveau.conf"


def refuse_torn(rows: list[Row], record: Record) -> None:
    """Before engines start on a host whose driver is ours to keep. After a reboot whose end nobody saw, as
    pdctl was killed, this is the look that it still owes."""
    engines = [row["name"] for row in rows if row.get("role") != PROXY]
    if not engines or BAN.format(record.cluster) not in record.rows:
        return
    if "nouveau" in loaded_modules():
        raise Problem(_refusal("nouveau is loaded and has the GPUs"))
    libraries = {name: version for name, (version, _) in dpkg_status([*USER_SPACE]).items()}
    why = torn(loaded(), libraries)
    if why:
        raise Problem(_refusal(why))
    if record.reboot and record.reboot["boot"] != boot_id():
        if not loaded():
            raise Problem(
                "it has rebooted, and no nvidia module is loaded: `modprobe nvidia` and `journalctl -b -k` on"
                " it tell why. No engine was started"
            )
        record.reboot = None  # written with what comes of the units


def torn(module: str, libraries: dict[str, str]) -> str:
    """In words; empty where they agree, or where one of them is not there."""
    versions = sorted({upstream(version) for version in libraries.values()})
    if not module or not versions or versions == [module]:
        return ""
    return f"driver module {module} is loaded, and {' and '.join(versions)} is on disk"


def boot_id() -> str:
    return _text(BOOT_ID).strip()


def loaded() -> str:
    return loaded_driver(_text(VERSION))


def _refusal(why: str) -> str:
    return (
        f"{why}: CUDA would start nothing before this host has been rebooted (`pdctl apply --allow-reboot`)."
        " No engine was started"
    )


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""
