"""This host's driver in memory, on disk, and for the kernel that boots next: three that must agree."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from typing import Any

from ansible.module_utils.pdctl_observe_packages import dpkg_status

# Loaded modules that say who has the GPUs and what the fabric works with.
MODULES = ("nouveau", "nvidia", "nvidia_peermem", "mlx5_core", "ib_umad")
# Packages that hold the driver's user space: NVML and CUDA's driver library, and the tools.
USER_SPACE = ("libnvidia-compute", "libnvidia-compute-[0-9]*", "nvidia-utils-[0-9]*")
# Where modules lie that are not the kernel's own: dkms(8), and what vendors' packages put there.
NOT_THE_KERNELS = ("updates/", "extra/", "weak-updates/")
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# The public half of what dkms signs with: Ubuntu's shim-signed, and dkms's own (dkms(8), mok_certificate).
DKMS_KEYS = ("var/lib/shim-signed/mok/MOK.der", "var/lib/dkms/mok.pub")
# Modules that the distribution has built and signed for one kernel, or its metapackage for all of a kind.
PREBUILT = "linux-modules-nvidia-[0-9]*"
PACKED = r"(?:\.(?:gz|xz|zst))?"


def stack_facts(root: str = "/") -> dict[str, Any]:
    kernel, why = next_kernel(root)
    folder = os.path.join(root, "lib/modules", kernel)
    return {
        "modules": loaded_modules(root),
        "libraries": {name: version for name, (version, _) in sorted(dpkg_status([*USER_SPACE]).items())},
        "next_kernel": kernel,
        "chosen_by": why,
        "headers": bool(kernel) and os.path.exists(os.path.join(folder, "build")),
        "built": built_modules(folder) if kernel else [],
        "secure_boot": secure_boot(root),
        "key_enrolled": key_enrolled(root),
        "prebuilt": bool(dpkg_status([PREBUILT])),
    }


def secure_boot(root: str = "/") -> bool:
    """The last byte of the firmware's variable, after four of attributes (UEFI specification, 3.3)."""
    try:
        with open(os.path.join(root, SECURE_BOOT), "rb") as handle:
            return handle.read()[4:] == b"\1"
    except OSError:
        return False


def key_enrolled(root: str = "/") -> bool:
    """Whether a key that dkms signs with is one of the machine owner's; without mokutil nobody knows it."""
    tool = shutil.which("mokutil")
    keys = [os.path.join(root, key) for key in DKMS_KEYS if os.path.exists(os.path.join(root, key))]
    for key in keys if tool else ():
        done = subprocess.run(
            [str(tool), "--test-key", key], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if b"already enrolled" in done.stdout:  # the exit status says it the other way round
            return True
    return False


def loaded_modules(root: str = "/") -> list[str]:
    """Those that matter here; a folder of /sys/module is one that is loaded, or part of the kernel itself."""
    names = {line.split(" ", 1)[0] for line in _text(os.path.join(root, "proc/modules")).splitlines()}
    folder = os.path.join(root, "sys/module")
    return [name for name in MODULES if name in names or os.path.isdir(os.path.join(folder, name))]


def next_kernel(root: str = "/") -> tuple[str, str]:
    """The kernel that the next boot takes, and what says so; empty where /boot has none.

    GRUB's default entry is the newest kernel. Another one is known by the version in its title or id; an
    entry given by its number among submenus is not followed.
    """
    paths = glob.glob(os.path.join(glob.escape(root), "boot/vmlinuz-*"))
    kernels = sorted((os.path.basename(path)[len("vmlinuz-") :] for path in paths), key=_by_number)
    if not kernels:
        return "", ""
    chosen, where = _grub_entry(root)
    found = [kernel for kernel in kernels if re.search(rf"(?<![\w.]){re.escape(kernel)}(?![\w.])", chosen)]
    longest = max(found, key=len) if found else ""
    return (longest, where) if longest else (kernels[-1], "the newest in /boot")


def built_modules(folder: str) -> list[str]:
    """`nvidia` if depmod knows one below `folder`, `mlx5_core` if one that is not the kernel's own."""
    text = _text(os.path.join(folder, "modules.dep"))
    outside = "|".join(map(re.escape, NOT_THE_KERNELS))
    wanted = {
        "nvidia": rf"^(?:\S*/)?nvidia\.ko{PACKED}:",
        "mlx5_core": rf"^(?:{outside})(?:\S*/)?mlx5_core\.ko{PACKED}:",
    }
    return [name for name, pattern in wanted.items() if re.search(pattern, text, re.MULTILINE)]


def _grub_entry(root: str) -> tuple[str, str]:
    """grub-reboot's entry for one boot, or the default, or what `saved` stands for; and what says so."""
    environment = _assignments(_text(os.path.join(root, "boot/grub/grubenv")))
    if environment.get("next_entry"):
        return environment["next_entry"], "grub-reboot"
    default = ""
    for path in ["etc/default/grub", *_snippets(root)]:
        default = _assignments(_text(os.path.join(root, path))).get("GRUB_DEFAULT", default)
    if default == "saved":
        return environment.get("saved_entry", ""), "grub-set-default"
    return default, "GRUB_DEFAULT"


def _snippets(root: str) -> list[str]:
    found = glob.glob(os.path.join(glob.escape(root), "etc/default/grub.d/*.cfg"))
    return [os.path.relpath(path, root) for path in sorted(found)]


def _assignments(text: str) -> dict[str, str]:
    pairs = re.findall(r"^\s*(\w+)=(.*)$", text, re.MULTILINE)
    return {name: value.strip().strip("\"'") for name, value in pairs}


def _by_number(kernel: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[.\-+~_]", kernel)]


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""
