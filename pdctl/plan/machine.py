"""A host's driver in memory, on disk and for its next kernel -> what does not agree, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pdctl.knowledge.reboots import upstream

NOUVEAU = "nouveau"


@dataclass(frozen=True)
class Machine:
    """What a host says of its driver and its kernels.

    `driver` is the loaded module's version, `kernel` the one that runs, `modules` those of interest that are
    loaded, `libraries` the packages of the driver's user space with their versions; `next_kernel` boots next
    (`chosen_by` says why), `headers` whether its headers are there, `built` the modules that were added to
    it: `nvidia`, and OFED's `mlx5_core`. Under `secure_boot` only signed modules load: `key_enrolled` is
    said of the key that dkms signs with, `prebuilt` of the distribution's own signed modules.
    """

    modules: tuple[str, ...] = ()
    libraries: Mapping[str, str] = field(default_factory=dict)
    next_kernel: str = ""
    chosen_by: str = ""
    headers: bool = False
    built: tuple[str, ...] = ()
    secure_boot: bool = False
    key_enrolled: bool = False
    prebuilt: bool = False
    driver: str = ""
    kernel: str = ""

    @property
    def user_space(self) -> tuple[str, ...]:
        """Upstream versions of the libraries and tools; one, when all is well."""
        return tuple(sorted({upstream(version) for version in self.libraries.values()}))


def split(machine: Machine, pinned: str) -> tuple[str, bool]:
    """Module and user space of different versions, in words, and whether only a reboot joins them.

    Where the module that runs is the pinned one, user space was moved under it: an apply brings that back.
    """
    found = machine.user_space
    if not machine.driver or not found or found == (machine.driver,):
        return "", False
    words = f"loaded module {machine.driver}, user space {' and '.join(found)}"
    if machine.driver == upstream(pinned):
        return f"{words} -> apply brings user space back to {machine.driver}", False
    return f"{words} -> reboot needed", True


def unsigned(machine: Machine, package: str) -> tuple[str, str]:
    """What keeps a driver from being loaded that dkms builds, and the two ways out; empty where nothing does.

    To enrol a key somebody has to confirm it in the firmware's own menu, which no login reaches.
    """
    if not machine.secure_boot or machine.key_enrolled or machine.prebuilt:
        return "", ""
    signed = package.replace("nvidia-driver-", "linux-modules-nvidia-", 1)
    return (
        f"Secure Boot is on, and the key that dkms signs modules with is not enrolled: {package} would be"
        " installed, and its module refused at boot",
        f"install the distribution's signed modules first ({signed}-KERNEL), or enrol the key by hand:"
        " mokutil --import, then confirm it on the console at the next boot",
    )


def unbootable(machine: Machine, ofed: bool) -> str:
    """What the kernel that boots next lacks, and what to do first; empty when it has all, or is not known.

    The running kernel proves nothing here: the two differ in just this incident.
    """
    kernel = machine.next_kernel
    lacks = [] if "nvidia" in machine.built else ["nvidia"]
    lacks += ["mlx5_core of OFED"] if ofed and "mlx5_core" not in machine.built else []
    if not kernel or not lacks or not (machine.libraries or machine.driver):
        return ""
    runs = "the same that runs" if kernel == machine.kernel else f"{machine.kernel} runs"
    verb = "has no module" if len(lacks) == 1 else "has no modules"
    get = "" if machine.headers else f"apt-get install linux-headers-{kernel}, then "
    missing = "" if machine.headers else ", and its headers are missing"
    return (
        f"kernel {kernel} boots next ({machine.chosen_by}; {runs}) and {verb} {' and '.join(lacks)}{missing}:"
        f" {get}dkms autoinstall -k {kernel}, before any reboot"
    )


def other_kernel(machine: Machine, pinned: str) -> str:
    """That another kernel than the pinned one boots next, and what to do; empty without a pin."""
    if not pinned or not machine.next_kernel or machine.next_kernel == pinned:
        return ""
    return (
        f"kernel {pinned} is pinned, and {machine.next_kernel} boots next ({machine.chosen_by}): set"
        f" GRUB_DEFAULT=saved, then grub-set-default 'gnulinux-advanced-...>gnulinux-{pinned}-advanced-...'"
        " as `grep gnulinux /boot/grub/grub.cfg` has it, before any reboot"
    )
