"""Changes x what hosts say of their drivers and kernels -> who needs a reboot, for what, and who gets one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pdctl.knowledge.reboots import DRIVER, KERNEL, OFED, REBOOTS, upstream
from pdctl.plan.machine import NOUVEAU, Machine, other_kernel, split, unbootable, unsigned
from pdctl.plan.model import Action, Change, NeedsReboot, Reboots
from pdctl.state import File, Key, Package, State, difference

FLAG = "--allow-reboot"
# Who boots or signs otherwise than pdctl can see, suppresses these.
KERNEL_RULE, SIGNATURE_RULE = "FACT022", "FACT024"


@dataclass(frozen=True)
class Asked:
    """What a host's record says of the last reboot: in which boot it was asked for, or became due, and what
    for. It is gone once the host was seen to be right."""

    boot: str
    why: tuple[str, ...]


@dataclass(frozen=True)
class Boots:
    """What bears on reboots. `own` are hosts that pdctl itself runs on, or is connected to as such; `within`
    those that the targets name (None: all)."""

    machines: Mapping[str, Machine] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)  # host -> its present boot
    asked: Mapping[str, Asked] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    within: frozenset[str] | None = None
    hushed: frozenset[str] = frozenset()  # rules that the spec sets aside


def reboots(
    changes: Sequence[Change],
    wanted: State,
    observed: State,
    boots: Boots,
    alone: Mapping[str, str] | None = None,
    *,
    allowed: bool = False,
    moving: bool = False,
) -> Reboots:
    """`allowed`: somebody has agreed. `alone`: hosts that others rely on, and why. `moving`: instances change
    their addresses in the same plan."""
    needs = tuple(dict.fromkeys(_needs(changes, wanted, observed, boots)))
    by_host: dict[str, list[NeedsReboot]] = {}
    for need in needs:
        by_host.setdefault(need.host, []).append(need)
    there = {host for host in by_host if boots.within is None or host in boots.within}
    refused = {
        host: why
        for host in sorted(there if allowed else ())
        if (
            why := (alone or {}).get(host, "")
            or _refusal(host, by_host[host], changes, wanted, observed, boots, moving=moving)
        )
    }
    hosts = tuple(sorted(there - refused.keys())) if allowed else ()
    deep = {host for host, some in by_host.items() if any(need.waits for need in some)}
    later = {c.key for c in changes if c.key.host in deep and _goes_with_it(c)}
    stops = {host for host, some in by_host.items() if any(need.stops for need in some)}
    return Reboots(
        needs, hosts, refused, frozenset(later), frozenset(stops - set(hosts)), KERNEL_RULE in boots.hushed
    )


def is_nouveaus(file: File) -> bool:
    """The file that keeps it from being loaded."""
    return file.path.startswith("/etc/modprobe.d/") and file.path.endswith(f"-{NOUVEAU}.conf")


def with_package(host: str, machine: Machine, observed: State) -> Machine:
    """Where no library tells the version of user space, the driver's own package does."""
    if machine.libraries:
        return machine
    names = {
        row.name: row.version
        for key, row in observed.items()
        if key.host == host and isinstance(row, Package) and row.version and row.name.startswith(DRIVER)
    }
    return replace(machine, libraries=names)


def _needs(changes: Sequence[Change], wanted: State, observed: State, boots: Boots) -> Iterator[NeedsReboot]:
    found = [*_coming(changes, boots)]
    going = {(need.host, need.package) for need in found}
    found += [need for need in _there(wanted, observed, boots) if (need.host, need.package) not in going]
    yield from found
    told = {need.host for need in found}
    for host, asked in boots.asked.items():
        # Whatever it was for, this boot is still the one in which it began.
        if host not in told and boots.ids.get(host) == asked.boot:
            yield NeedsReboot(host, "", "; ".join(asked.why), "an apply that was cut off had begun it")


def _coming(changes: Sequence[Change], boots: Boots) -> Iterator[NeedsReboot]:
    """What the plan itself changes."""
    for change in changes:
        if change.action in (Action.CREATE, Action.UPDATE):
            machine = boots.machines.get(change.key.host)
            yield from _packages(change, machine)
            yield from _nouveau(change, machine or Machine())


def _there(wanted: State, observed: State, boots: Boots) -> Iterator[NeedsReboot]:
    """What is on disk already and not in force."""
    for key, want in wanted.items():
        machine = boots.machines.get(key.host)
        if machine and isinstance(want, Package):
            yield from _standing(key.host, want, machine, observed)
        if machine and isinstance(want, File) and is_nouveaus(want) and NOUVEAU in machine.modules:
            have = observed.get(key)
            if have is not None and not difference(want, have):
                yield _ban(key.host)


def _packages(change: Change, machine: Machine | None) -> Iterator[NeedsReboot]:
    want, have = change.desired, change.observed
    before = have.version if isinstance(have, Package) else None
    if not isinstance(want, Package) or want.version is None or want.version == before:
        return
    for known in REBOOTS:
        if want.name.startswith(known.beginning) and before and _in_use(want, machine):
            words = f"{before} -> {want.version}"
            loaded = machine.driver if machine and want.name.startswith(DRIVER) else before
            mark = f"{upstream(loaded)} -> {upstream(want.version)}"
            yield NeedsReboot(change.key.host, want.name, words, known.why, mark, waits=True)


def _in_use(want: Package, machine: Machine | None) -> bool:
    """Whether another version of it is loaded; so it is wherever nobody can tell."""
    if machine is None:
        return True
    if want.name.startswith(DRIVER):
        return bool(machine.driver) and machine.driver != upstream(want.version or "")
    return "mlx5_core" in machine.modules


def _goes_with_it(change: Change) -> bool:
    """One transaction: Fabric Manager, the toolkit and the rest of the stack that pdctl pins and holds."""
    want, have = change.desired, change.observed
    if not isinstance(want, Package) or not want.hold or want.deb:
        return False
    return not isinstance(have, Package) or want.version not in (None, have.version)


def _nouveau(change: Change, machine: Machine) -> Iterator[NeedsReboot]:
    if isinstance(change.desired, File) and is_nouveaus(change.desired) and NOUVEAU in machine.modules:
        yield _ban(change.key.host)


def _ban(host: str) -> NeedsReboot:
    return NeedsReboot(host, NOUVEAU, "loaded -> forbidden", "it holds the GPUs until then", stops=True)


def _standing(host: str, want: Package, machine: Machine, observed: State) -> Iterator[NeedsReboot]:
    if want.name.startswith(DRIVER) and want.version:
        now = with_package(host, machine, observed)
        _, only = split(now, want.version)
        if only:
            found = " and ".join(now.user_space)
            change, mark = f"{machine.driver} is loaded, {found} on disk", f"{machine.driver} -> {found}"
            yield NeedsReboot(
                host, want.name, change, "CUDA starts no new process until then", mark, stops=True
            )
    release = want.name.removeprefix(KERNEL)
    if want.name.startswith(KERNEL) and machine.kernel and release not in ("", machine.kernel):
        change = f"{machine.kernel} -> {release}"
        yield NeedsReboot(host, want.name, change, "the running kernel stays the old one until then")


def _refusal(
    host: str,
    needs: Sequence[NeedsReboot],
    changes: Sequence[Change],
    wanted: State,
    observed: State,
    boots: Boots,
    *,
    moving: bool,
) -> str:
    """Why it is not rebooted although it may be, with what to do; empty when it can be."""
    machine, asked = boots.machines.get(host, Machine()), boots.asked.get(host)
    if host in boots.own:
        return "pdctl itself runs on it: apply from another machine, or reboot it by hand and apply again"
    if moving:
        return "instances change their addresses in this plan: the next apply reboots it"
    why = {need.words for need in needs}
    if asked and boots.ids.get(host) != asked.boot and why <= set(asked.why):
        return (
            f"it was rebooted for that already, and still: {'; '.join(sorted(why))}. `journalctl -b -k` on it"
            " tells why; once that is mended, reboot it by hand and apply again"
        )
    pinned = [
        k.id.partition(KERNEL)[2] for k in wanted if k.host == host and k.id.startswith(f"package:{KERNEL}")
    ]
    coming = {c.key.id for c in changes if c.key.host == host and c.observed is None}
    if pinned and f"package:{KERNEL}{pinned[0]}" in coming:
        return ""  # which kernel boots next is seen on the host, once that one is there
    if words := other_kernel(machine, pinned[0] if pinned else ""):
        return words
    ofed = Key(host, f"package:{OFED}") in observed
    words = (
        "" if KERNEL_RULE in boots.hushed else unbootable(with_package(host, machine, observed), ofed=ofed)
    )
    if words:
        return words
    drivers = [r for k, r in wanted.items() if k.host == host and isinstance(r, Package) and r.family]
    signs = not drivers or SIGNATURE_RULE in boots.hushed
    what, mend = ("", "") if signs else unsigned(machine, drivers[0].name)
    return f"{what}; {mend}" if what else ""
