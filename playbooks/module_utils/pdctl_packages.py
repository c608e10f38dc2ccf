"""Package rows -> installed packages, in one transaction, with the reason when apt refuses."""

from __future__ import annotations

import os
import subprocess

from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_observe_packages import dpkg_status

LOCK_S = 600  # an unattended upgrade on a fresh machine holds dpkg's lock for minutes
OPTIONS = ["-q", "-y", "-o", f"DPkg::Lock::Timeout={LOCK_S}", "-o", "Dpkg::Options::=--force-confold"]
# What apt says when its lists are older than the repository, or were never fetched.
STALE = (
    "Unable to locate package",
    "was not found",
    "has no installation candidate",
    "404  Not Found",
    "Failed to fetch",
)
INTERRUPTED = "dpkg was interrupted"


def put_packages(rows: list, have: dict, bundle: str, ours: set, downgrade: bool) -> list:
    """Installs, then holds; a hold that pdctl did not set is not lifted. Returns what came along."""
    install = [row for row in rows if _needs_install(row, have.get(row["name"]))]
    foreign = [
        row["name"] for row in install if have.get(row["name"], {}).get("hold") and row["name"] not in ours
    ]
    if foreign:
        raise Problem(f"held, and not by pdctl: {', '.join(foreign)}; run apt-mark unhold, then apply again")
    before = dpkg_status([]).keys()
    try:
        if install:
            apt(
                ["install", *_consent(install, have, downgrade), *(_target(row, bundle) for row in install)],
                install,
            )
    finally:
        now = dpkg_status([row["name"] for row in rows])
        mark(
            "hold",
            [row["name"] for row in rows if row["hold"] and now.get(row["name"], ("", "hold"))[1] != "hold"],
        )
    mark("unhold", [r["name"] for r in rows if not r["hold"] and have.get(r["name"], {}).get("hold")])
    asked = {row["name"] for row in rows}
    return sorted(name for name in dpkg_status([]).keys() - before if name not in asked)


def purge_packages(names: list) -> list:
    """Removes all of them, unless something else on the host came to need them. Returns those left."""
    if not names:
        return []
    simulated = _run(["apt-get", *OPTIONS, "--allow-change-held-packages", "-s", "purge", *names])
    going = {line.split()[1] for line in _text(simulated.stdout) if line.startswith(("Purg ", "Remv "))}
    if simulated.returncode or going - set(names):
        return sorted(names)
    mark("unhold", names)
    apt(["purge", *names], [])
    return []


def apt(words: list, rows: list) -> None:
    """One apt-get run; a half-done dpkg is finished and stale lists are fetched, each once."""
    command = ["apt-get", *OPTIONS, *words]
    done = _run(command)
    if done.returncode and INTERRUPTED in done.stderr.decode("utf-8", "replace"):
        _must(_run(["dpkg", "--configure", "-a", "--force-confold"]), "dpkg --configure -a")
        done = _run(command)
    if done.returncode and any(sign in done.stderr.decode("utf-8", "replace") for sign in STALE):
        update_lists()
        done = _run(command)
    _must(done, f"apt-get {words[0]}", _candidates(rows) if done.returncode else "")


def update_lists() -> None:
    _must(_run(["apt-get", *OPTIONS, "update", "--error-on=any"]), "apt-get update")


def mark(verb: str, names: list) -> None:
    if names:
        _must(_run(["apt-mark", verb, *names]), f"apt-mark {verb}")


def _needs_install(row: dict, have) -> bool:
    return have is None or row["version"] not in (None, have["version"])


def _target(row: dict, bundle: str) -> str:
    if row.get("deb"):
        return os.path.join(bundle, row["deb"])
    return f"{row['name']}={row['version']}" if row["version"] else row["name"]


def _consent(install: list, have: dict, downgrade: bool) -> list:
    held = any(have.get(row["name"], {}).get("hold") for row in install)
    return (["--allow-change-held-packages"] if held else []) + (["--allow-downgrades"] if downgrade else [])


def _candidates(rows: list) -> str:
    """Wanted and available versions of the packages that come from repositories."""
    words = []
    for row in rows:
        if not row.get("deb"):
            lines = _text(_run(["apt-cache", "policy", row["name"]]).stdout)
            offered = [
                line.split(":", 1)[1].strip() for line in lines if line.strip().startswith("Candidate:")
            ]
            words.append(
                f"{row['name']}: wanted {row['version'] or 'any'}, offered {(offered or ['none'])[0]}"
            )
    return "; ".join(words)


def _run(command: list) -> subprocess.CompletedProcess:
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", LC_ALL="C", NEEDRESTART_MODE="l")
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise Problem(f"{command[0]} is not on this host: only Debian and Ubuntu are managed") from None


def _must(done: subprocess.CompletedProcess, what: str, more: str = "") -> None:
    """The reasons: apt's `E:` lines, dpkg's errors, and what apt says of held packages on stdout."""
    if not done.returncode:
        return
    lines = _text(done.stderr)
    reasons = [line for line in lines if line.startswith(("E:", "dpkg: error", "dpkg-"))] or lines[-3:]
    if any("held broken packages" in line for line in reasons):
        reasons += [line.strip() for line in _text(done.stdout) if " : " in line][:5]
    raise Problem(
        f"{what} failed: {' / '.join(reasons[:8] or _text(done.stdout)[-3:])}{f' ({more})' if more else ''}"
    )


def _text(data: bytes) -> list:
    return [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
