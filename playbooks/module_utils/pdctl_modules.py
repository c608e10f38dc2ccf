"""OFED changed -> the driver's modules built anew against it, nvidia-peermem loaded; or why that fails."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection

from ansible.module_utils.pdctl_difference import Problem, difference
from ansible.module_utils.pdctl_family import upstream
from ansible.module_utils.pdctl_observe_peermem import OFED, PEERMEM, ROOT, peermem_refused
from ansible.module_utils.pdctl_observe_stack import loaded_modules, next_kernel
from ansible.module_utils.pdctl_rows import Row, Rows, row_id

KEY = f"package:{OFED}"
DRIVER = "nvidia-driver-"  # how its packages begin; as in `pdctl.knowledge.reboots`
# `nvidia/580.95.05, 6.8.0-60-generic, x86_64: installed` of dkms 3, `nvidia, 580.95.05, ...` of 2.8.
STATUS = re.compile(r"^(nvidia[\w.+-]*?)(?:/|, )([\w.+-]+)[,:]", re.MULTILINE)
BUILT = "already been built"  # dkms 2.8 does not build over that, whatever --force says
LOADED_CORE = "/sys/module/ib_core/srcversion"


class Modules:
    """Of one request: whether OFED changes under a driver that stays, or did so in a run that was cut off.

    A driver that is installed in the same run comes after OFED, and builds its modules against it by itself.
    """

    def __init__(self, put: list[Row], seen: Rows, recorded: Rows, pending: Collection[str]) -> None:
        """A request has what changes: a driver that stays is in the record alone."""
        ofed = next((row for row in put if row_id(row) == KEY), None)
        asked = next((row for row in put if row["kind"] == "package" and row.get("family")), None)
        driver = asked or kept_driver(recorded)
        self.version = upstream(driver["version"] or "") if driver else ""
        stays = asked is None or _is_as_wanted(asked, seen)
        changes = ofed is not None and not _is_as_wanted(ofed, seen)
        self.due = ofed is not None and driver is not None and ((changes and stays) or KEY in pending)

    def bring_about(self) -> list[str]:
        if not self.due:
            return []
        did = rebuild(self.version) + load_peermem(self.version)
        self.due = False
        return did

    def foretell(self) -> list[str]:
        return ["build the driver's modules anew, against OFED"] if self.due else []

    def owed(self) -> dict[str, str]:
        return {KEY: "the driver's modules have not been built against it"} if self.due else {}


def rebuild(version: str) -> list[str]:
    """For the kernel that runs and the one that boots next; nothing where dkms does not build the driver."""
    did = []
    for name in _built_by_dkms(version):
        for kernel in _kernels():
            words = ["-m", name, "-v", version, "-k", kernel]
            done = _run("dkms", "build", *words, "--force")
            if done.returncode and BUILT in done.stdout:
                _run("dkms", "remove", *words)
                done = _run("dkms", "build", *words)
            if not done.returncode:
                done = _run("dkms", "install", *words, "--force")
            if done.returncode:
                said = " / ".join(done.stdout.strip().splitlines()[-3:])
                raise Problem(
                    f"the driver's modules cannot be built against OFED, for kernel {kernel}: {said}."
                    " No engine was started; mend that and apply again, which builds them"
                )
            did.append(f"run dkms build {' '.join(words)}: OFED changed")
    return did


def load_peermem(version: str) -> list[str]:
    """Nothing to load into where no driver runs, nor while RDMA modules in memory are not those on disk."""
    now = loaded_modules(ROOT)
    if "nvidia" not in now or PEERMEM in now:
        return []
    if rdma_is_old():
        return ["leave nvidia-peermem until a reboot: the RDMA modules in memory are not those on disk"]
    done = _run("modprobe", "nvidia-peermem")
    if not done.returncode and PEERMEM in loaded_modules(ROOT):
        return ["load nvidia-peermem"]
    said = " / ".join(done.stdout.split("\n")).strip(" /") or "it is not in lsmod afterwards"
    raise Problem(refusal(said, peermem_refused(), version))


def check_peermem(recorded: Rows) -> None:
    """Before engines start: where pdctl keeps OFED and the driver, a peermem that fits neither is told."""
    driver = kept_driver(recorded)
    if driver is not None and KEY in recorded and peermem_refused():
        load_peermem(upstream(driver["version"]))


def kept_driver(recorded: Rows) -> Row | None:
    """The driver's package, where pdctl keeps it here."""
    found = (row for row in recorded.values() if row.get("name", "").startswith(DRIVER))
    return next((row for row in found if row["kind"] == "package"), None)


def refusal(said: str, log: str, version: str) -> str:
    kernel = f"the kernel log has `{log}`" if log else "the kernel log has nothing of it"
    why = (
        "It was built against another RDMA stack: rebuild driver modules" if log else "Rebuild driver modules"
    )
    return (
        f"nvidia-peermem does not load ({said}); {kernel}. {why} (dkms build -m nvidia -v {version}"
        f" -k {os.uname().release} --force, then dkms install with the same words), then apply again."
        " No engine was started"
    )


def rdma_is_old() -> bool:
    """Whether the RDMA core that runs is another build than the one that a boot would load."""
    try:
        with open(LOADED_CORE, encoding="ascii") as handle:
            runs = handle.read().strip()
    except OSError:
        return False
    done = _run("modinfo", "-F", "srcversion", "ib_core")
    return not done.returncode and bool(done.stdout.strip()) and done.stdout.strip() != runs


def _is_as_wanted(row: Row, seen: Rows) -> bool:
    have = seen.get(row_id(row))
    return have is not None and not [line for line in difference(row, have) if line.startswith("version")]


def _built_by_dkms(version: str) -> list[str]:
    rows = STATUS.findall(_run("dkms", "status").stdout)
    return list(dict.fromkeys(name for name, number in rows if number == version))


def _kernels() -> list[str]:
    """Without headers nothing can be built for a kernel; that is told elsewhere."""
    names = dict.fromkeys([os.uname().release, next_kernel()[0]])
    return [name for name in names if name and os.path.exists(f"/lib/modules/{name}/build")]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    """What it says on both; a program that is missing has failed."""
    known = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "check": False, "text": True}
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, **known)  # type: ignore[call-overload,no-any-return]
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, f"{command[0]} is not on this host", "")
