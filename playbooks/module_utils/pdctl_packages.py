"""Package rows -> installed packages, in one transaction, with the reason when apt refuses."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from ansible.module_utils.pdctl_apt import Apt, Done
from ansible.module_utils.pdctl_apt_words import needed, reasons
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_family import astray, belongs, loose, upstream
from ansible.module_utils.pdctl_observe_packages import dpkg_known, dpkg_status
from ansible.module_utils.pdctl_offers import candidates, lack, lacking, offers, vendors
from ansible.module_utils.pdctl_rows import Row, Rows

# The driver's modules are built against OFED's when the driver is set up; a transaction has no order for that
# (NVIDIA GPUDirect RDMA documentation: OFED first).
FIRST = ("doca-ofed",)
BROKEN = "--fix-broken"  # what apt says to try
NEW = re.compile(r"^Inst (\S+) (?:\[[^]]*\] )?\((\S+) ", re.MULTILINE)
GONE = re.compile(r"^(?:Purg|Remv) (\S+)", re.MULTILINE)


class Ours(NamedTuple):
    """Packages that pdctl holds, and all that it has put on this host."""

    held: set[str]
    installed: set[str]


def put_packages(
    apt: Apt,
    rows: list[Row],
    have: Rows,
    bundle: str,
    ours: Ours,
    downgrade: bool,
    remember: Callable[[list[str]], None],
) -> None:
    """Installs, then holds; a hold that pdctl did not set is not lifted.

    `remember` is told, before anything is installed, which packages will come along.
    """
    install = [row for row in rows if needs_install(row, have.get(row["name"]))]
    names = [row["name"] for row in rows]
    refuse_holds([row["name"] for row in install if _is_held(have, row)], ours.held)
    before = dpkg_known([])
    family = [name for name in before if any(belongs(row, name) for row in rows)]
    apt.resume({*names, *family, *ours.installed})
    try:
        first = [_target(row, bundle) for row in install if row["name"] in FIRST]
        rest = [_target(row, bundle) for row in install if row["name"] not in FIRST] + _family_targets(rows)
        if first or rest:
            must_be_offered(apt, install)
            consent = ["install", *_consent(rows, have, downgrade)]
            steps, done = _foretold(apt, consent, [first, rest], rows, ours)
            new, gone = dict(NEW.findall(done.stdout)), GONE.findall(done.stdout)
            refuse_holds(_held_by_others({*new, *gone}, rows), ours.held)
            refuse_mixture(rows, new)
            remember(sorted(new.keys() - before.keys() - set(names)))
            for some in filter(None, steps):
                apt.install([*consent, *some])
    finally:
        apt.drop(_half_installed(before))
        hold(apt, rows)
    apt.mark("unhold", [row["name"] for row in rows if not row["hold"] and _is_held(have, row)])


def must_be_offered(apt: Apt, install: list[Row]) -> None:
    """Raises where a version is in no repository, also by lists that were just fetched."""
    if not lacking(install):
        return
    apt.update()
    missing = lacking(install)
    if not missing:
        return
    versions = {row["name"]: row["version"] for row in install}
    words = "; ".join(lack(name, versions[name], there) for name, there in missing.items())
    unread = f". Repositories that could not be read: {'; '.join(apt.untaken)}" if apt.untaken else ""
    mend = "" if apt.untaken else ". Pin a version that is there, or give the host a repository that has it"
    raise Problem(f"{words}{unread}{mend}")


def refuse_holds(names: Collection[str], ours: set[str]) -> None:
    foreign = sorted(set(names) - ours)
    if foreign:
        raise Problem(f"held, and not by pdctl: {', '.join(foreign)}; run apt-mark unhold, then apply again")


def refuse_mixture(rows: list[Row], new: dict[str, str]) -> None:
    """Driver and Fabric Manager of two vendors have met as 580.95.05-0ubuntu0.22.04.2 and 580.95.05-1."""
    for row in rows:
        pairs = [pair for pair in new.items() if row.get("family") and _is_of(row, *pair)]
        found = {pair: who for pair, who in vendors(pairs).items() if who}
        if found and not set.intersection(*found.values()):
            words = ", ".join(
                f"{name} {version} ({' or '.join(sorted(who))})" for (name, version), who in found.items()
            )
            raise Problem(
                f"what belongs to {row['name']} would come from more than one vendor: {words}. Pin versions"
                " of one, as `driver` and `fabricmanager`; nothing was installed"
            )


def hold(apt: Apt, rows: list[Row]) -> None:
    """The packages themselves, and what of their families is installed by now."""
    now = dpkg_status([])
    names = [row["name"] for row in rows if row["hold"] and now.get(row["name"], ("", "hold"))[1] != "hold"]
    for row in rows:
        names += [name for name in loose(row, now) if name not in names] if row.get("family") else []
    apt.mark("hold", names)


def purge_packages(names: list[str], apt: Apt | None = None) -> list[str]:
    """Removes all of them, unless something else on the host came to need them. Returns those left."""
    known = sorted(dpkg_known(names)) if names else []
    if not known:
        return []
    apt = apt or Apt()
    apt.resume(known)
    simulated = apt.simulate(["--allow-change-held-packages", "purge", *known])
    if simulated.returncode or set(GONE.findall(simulated.stdout)) - set(known):
        return known
    apt.mark("unhold", known)
    apt.purge(known)
    return []


def needs_install(row: Row, have: Row | None) -> bool:
    return have is None or row["version"] not in (None, have["version"])


def _foretold(
    apt: Apt, consent: list[str], steps: list[list[str]], rows: list[Row], ours: Ours
) -> tuple[list[list[str]], Done]:
    """The steps, and what apt would do for all of them. Raises where it finds no way.

    Where dependencies are broken already, as after a dpkg that was cut off with some of a family new and
    others old, apt takes nothing along by itself: all of it has to be named, and be done at once.
    """
    words = [word for step in steps for word in step]
    done = apt.simulate([*consent, *words])
    while done.returncode:
        along = needed(done.stdout)
        refuse_holds(_held_by_others(along, rows), ours.held)
        more = [f"{name}={version}" if version else name for name, version in along.items()]
        if BROKEN not in done.stderr or set(more) <= set(words):
            wanted = {row["name"]: row["version"] for row in rows if not row.get("deb")}
            said = reasons(done.stdout, done.stderr)
            raise Problem(f"apt finds no way to install it: {said} ({candidates({**wanted, **along})})")
        words += [word for word in more if word not in words]
        steps = [words]
        done = apt.simulate([*consent, *words])
    return steps, done


def _held_by_others(moved: Collection[str], rows: list[Row]) -> list[str]:
    """Of what apt would move along, consent to change what pdctl holds must not reach further."""
    held = [name for name, (_, want) in dpkg_status([]).items() if want == "hold" and name in moved]
    mine = {row["name"] for row in rows if row["hold"]}
    return [name for name in held if name not in mine and not any(belongs(row, name) for row in rows)]


def _is_of(row: Row, name: str, version: str) -> bool:
    return belongs(row, name) and upstream(version) == upstream(row["version"] or "")


def _half_installed(before: dict[str, tuple[str, str, str]]) -> list[str]:
    return [
        name
        for name, row in dpkg_known([]).items()
        if name not in before and row[2] not in ("installed", "config-files")
    ]


def _is_held(have: Rows, row: Row) -> bool:
    return bool(have.get(row["name"], {}).get("hold"))


def _target(row: Row, bundle: str) -> str:
    if row.get("deb"):
        return os.path.join(bundle, row["deb"])
    return f"{row['name']}={row['version']}" if row["version"] else str(row["name"])


def _family_targets(rows: list[Row]) -> list[str]:
    """Members at another version than their pin's, each with the version that some repository has of it; not
    those with a pin of their own.

    What none has is left to apt: a newer driver may come without it.
    """
    installed = dpkg_status([]) if any(row.get("family") for row in rows) else {}
    found, pinned = [], {row["name"] for row in rows}
    for row in rows:
        names = sorted(astray(row, installed).keys() - pinned) if row.get("family") else []
        known = offers(names)
        for name in names:
            there = [offer.version for offer in known[name]]
            fits = [version for version in there if upstream(version) == upstream(row["version"])]
            best = row["version"] if row["version"] in fits else next(iter(fits), "")
            found += [f"{name}={best}"] if best else []
    return found


def _consent(rows: list[Row], have: Rows, downgrade: bool) -> list[str]:
    held = any(row.get("family") or _is_held(have, row) for row in rows)
    return (["--allow-change-held-packages"] if held else []) + (["--allow-downgrades"] if downgrade else [])
