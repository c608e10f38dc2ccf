"""One host's way through a reboot: engines at rest, all looked at before it is asked for, and again after."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_driver import boot_id, loaded, torn
from ansible.module_utils.pdctl_files import run
from ansible.module_utils.pdctl_host_lock import host_lock
from ansible.module_utils.pdctl_journal import journaled
from ansible.module_utils.pdctl_observe_stack import loaded_modules, stack_facts
from ansible.module_utils.pdctl_observe_units import unit_states
from ansible.module_utils.pdctl_record import Record
from ansible.module_utils.pdctl_rows import Row, row_of

DELAY_S = 1  # until it begins: the answer has to be out of the house
STARTING = ("initializing", "starting")  # systemctl(1), is-system-running
NOUVEAU = "nouveau"


def rest(request: Row, did: list[str]) -> None:
    """Engines stop, and the boot does not start them: that is done once all has been looked at."""
    with host_lock(), journaled(request, did):
        record, names = Record(request["record"], request["cluster"]), request["rest"]
        refuse_others(request)
        if request["reboot"]["owed"]:
            record.begin_reboot(boot_id(), request["reboot"]["why"])
        states = unit_states(names) if names else {}
        known = [name for name in names if states[name]["LoadState"] == "loaded"]
        rows = [row_of(f"unit:{name}") for name in known]
        record.intend(rows, {f"unit:{name}": {} for name in known}, [])
        running = [name for name in known if states[name]["ActiveState"] != "inactive"]
        if running:
            run(["systemctl", "stop", *running], "stop")
            did.extend(f"stop {name}: its host reboots" for name in running)
        if known:
            run(["systemctl", "disable", "--quiet", *known], "disable")


def ask(request: Row, did: list[str]) -> Row:
    """Raises Problem where the host would come back worse than it goes."""
    with host_lock(), journaled(request, did):
        wanted, facts = request["reboot"], stack_facts()
        why = "" if wanted["blind"] else unfit(wanted, facts)
        if why:
            raise Problem(f"it was not rebooted, and its engines do not run: {why}")
        boot = boot_id()
        Record(request["record"], request["cluster"]).begin_reboot(boot, wanted["why"])
        begin_soon()
        did.append(f"ask for a reboot: {'; '.join(wanted['why'])}")
        return {"boot": boot, "kernel": facts["next_kernel"]}


def look(request: Row, before: str, kernel: str, seconds: float, did: list[str]) -> Row:
    """`boot`: which one it is in; `wrong`: what is not as it shall be; `settled`: whether more may come.
    The first look at which nothing is wrong ends it."""
    boot = boot_id()
    if boot == before:
        return {"boot": boot, "wrong": [], "settled": False}
    wrong = list(faults(request["reboot"], kernel, stack_facts()))
    if not wrong:
        with host_lock(), journaled(request, did):
            Record(request["record"], request["cluster"]).end_reboot(seconds)
            did.append(f"rebooted in {seconds:.0f} s: {found(request['reboot'])}")
    return {"boot": boot, "wrong": wrong, "settled": is_settled()}


def unfit(wanted: Row, facts: Row) -> str:
    """Why the kernel that boots next would leave the host without its driver, and what to do first."""
    kernel = facts["next_kernel"]
    if not kernel:
        return ""
    if wanted["kernel"] and kernel != wanted["kernel"]:
        return f"kernel {wanted['kernel']} is pinned, and {kernel} boots next ({facts['chosen_by']})"
    lacks = ["nvidia"] if wanted["driver"] and "nvidia" not in facts["built"] else []
    lacks += ["mlx5_core of OFED"] if wanted["ofed"] and "mlx5_core" not in facts["built"] else []
    built = module_version(kernel) if wanted["driver"] else ""
    if not lacks and built and built != wanted["driver"]:
        lacks = [f"nvidia {wanted['driver']} (but {built})"]
    if not lacks:
        return ""
    get = "" if facts["headers"] else f"apt-get install linux-headers-{kernel}, then "
    return (
        f"kernel {kernel} boots next ({facts['chosen_by']}) and has no module {' and '.join(lacks)}: {get}"
        f"dkms autoinstall -k {kernel}, then apply again"
    )


def faults(wanted: Row, kernel: str, facts: Row) -> list[str]:
    """What a reboot should have brought, and did not."""
    wrong = []
    if kernel and platform.release() != kernel:
        wrong.append(f"kernel {platform.release()} runs, and {kernel} was to boot")
    if not wanted["driver"]:
        return wrong
    now, modules = loaded(), loaded_modules()
    if NOUVEAU in modules:
        wrong.append("nouveau is loaded and has the GPUs: `lsinitramfs` of its initrd tells who brings it")
    if now != wanted["driver"]:
        there = f"module {now} is loaded" if now else "no nvidia module is loaded"
        tells = "`modprobe nvidia` and `journalctl -b -k` on it tell why"
        wrong.append(f"{there}, not {wanted['driver']}: {tells}")
    split = torn(now, facts["libraries"])
    return wrong + ([split] if split and now == wanted["driver"] else [])


def found(wanted: Row) -> str:
    driver = f", driver {loaded()} in memory and on disk, no nouveau" if wanted["driver"] else ""
    return f"kernel {platform.release()}{driver}"


def refuse_others(request: Row) -> None:
    """Units of other clusters would go down undrained."""
    mine = f"pdctl-{request['cluster']}-"
    done = subprocess.run(
        ["systemctl", "list-units", "--plain", "--no-legend", "--state=active", "pdctl-*.service"],
        stdout=subprocess.PIPE,
        check=False,
    )
    names = [line.split()[0] for line in done.stdout.decode("utf-8", "replace").splitlines() if line.split()]
    others = [name for name in names if not name.startswith(mine)]
    if others:
        raise Problem(
            f"it was not rebooted, and nothing was changed: {', '.join(others)} of another cluster"
            f" run{'s' if len(others) == 1 else ''} on it, and would go down undrained; stop"
            f" {'it' if len(others) == 1 else 'them'} first"
        )


def begin_soon() -> None:
    timer = ["systemd-run", "--quiet", "--collect", f"--on-active={DELAY_S}"]
    run([*timer, "--timer-property=AccuracySec=100ms", "systemctl", "reboot"], "reboot")


def is_settled() -> bool:
    done = subprocess.run(["systemctl", "is-system-running"], stdout=subprocess.PIPE, check=False)
    return done.stdout.decode().strip() not in STARTING


def module_version(kernel: str) -> str:
    """Of the nvidia module that is built for a kernel; empty where nobody can tell."""
    tool = shutil.which("modinfo", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if tool is None:
        return ""
    done = subprocess.run(
        [tool, "-k", kernel, "-F", "version", "nvidia"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace").strip()
