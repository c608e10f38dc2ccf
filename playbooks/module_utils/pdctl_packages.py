"""Package rows -> installed packages, in one transaction, with the reason when apt refuses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_family import astray, loose, upstream
from ansible.module_utils.pdctl_observe_packages import dpkg_known, dpkg_status
from ansible.module_utils.pdctl_rows import Row, Rows

LOCK_S = 600  # an unattended upgrade on a fresh machine holds dpkg's lock for minutes
# Without Use-Pty dpkg's errors come on stderr, where they can be told from its progress.
OPTIONS = ["-q", "-y", "-o", f"DPkg::Lock::Timeout={LOCK_S}", "-o", "Dpkg::Use-Pty=0"]
OPTIONS += ["-o", "Dpkg::Options::=--force-confold"]
# What apt says when its lists are older than the repository, or were never fetched.
STALE = (
    "Unable to locate package",
    "was not found",
    "has no installation candidate",
    "404  Not Found",
    "Failed to fetch",
)
NOISE = ("W:", "N:", "debconf: delaying", "Errors were encountered")
Done = subprocess.CompletedProcess[bytes]
INTERRUPTED = "dpkg was interrupted"


def put_packages(
    rows: list[Row],
    have: Rows,
    bundle: str,
    ours: set[str],
    downgrade: bool,
    remember: Callable[[list[str]], None],
) -> None:
    """Installs, then holds; a hold that pdctl did not set is not lifted.

    `remember` is told, before anything is installed, which packages will come along.
    """
    install = [row for row in rows if _needs_install(row, have.get(row["name"]))]
    names = [row["name"] for row in rows]
    foreign = [row["name"] for row in install if _is_held(have, row) and row["name"] not in ours]
    if foreign:
        raise Problem(f"held, and not by pdctl: {', '.join(foreign)}; run apt-mark unhold, then apply again")
    before = dpkg_known([])
    try:
        targets = [_target(row, bundle) for row in install] + _family_targets(rows)
        if targets:
            words = ["install", *_consent(rows, have, downgrade), *targets]
            new = _named(apt(["-s", *words], install), "Inst ")
            remember(sorted(new - before.keys() - set(names)))
            apt(words, install)
    finally:
        _drop_half_installed(before)
        hold(rows)
    mark("unhold", [row["name"] for row in rows if not row["hold"] and _is_held(have, row)])


def hold(rows: list[Row]) -> None:
    """The packages themselves, and what of their families is installed by now."""
    now = dpkg_status([])
    names = [row["name"] for row in rows if row["hold"] and now.get(row["name"], ("", "hold"))[1] != "hold"]
    for row in rows:
        names += [name for name in loose(row, now) if name not in names] if row.get("family") else []
    mark("hold", names)


def purge_packages(names: list[str]) -> list[str]:
    """Removes all of them, unless something else on the host came to need them. Returns those left."""
    known = sorted(dpkg_known(names)) if names else []
    if not known:
        return []
    simulated = _run_apt(["--allow-change-held-packages", "-s", "purge", *known])
    if simulated.returncode or _named(simulated, "Purg ", "Remv ") - set(known):
        return known
    mark("unhold", known)
    apt(["purge", *known], [])
    return []


def apt(words: list[str], rows: list[Row]) -> Done:
    """One apt-get run; lists that turn out to be stale are fetched once."""
    done = _run_apt(words)
    if done.returncode and any(sign in done.stderr.decode("utf-8", "replace") for sign in STALE):
        update_lists()
        done = _run_apt(words)
    _must(done, f"apt-get {words[words[0] == '-s']}", _candidates(rows) if done.returncode else "")
    return done


def update_lists() -> None:
    _must(_run_apt(["update", "--error-on=any"]), "apt-get update")


def mark(verb: str, names: list[str]) -> None:
    if names:
        _must(_run(["apt-mark", verb, *names]), f"apt-mark {verb}")


def _run_apt(words: list[str]) -> Done:
    """apt-get, after what an interrupted dpkg left undone."""
    done = _run(["apt-get", *OPTIONS, *words])
    if done.returncode and INTERRUPTED in done.stderr.decode("utf-8", "replace"):
        _must(_run(["dpkg", "--configure", "-a", "--force-confold"]), "dpkg --configure -a")
        done = _run(["apt-get", *OPTIONS, *words])
    return done


def _drop_half_installed(before: dict[str, tuple[str, str, str]]) -> None:
    """A new package that could not be set up would block every later apt run on this host."""
    now = dpkg_known([])
    broken = [
        name
        for name, row in now.items()
        if name not in before and row[2] not in ("installed", "config-files")
    ]
    if broken:
        _run(["dpkg", "--purge", "--force-remove-reinstreq", *broken])


def _is_held(have: Rows, row: Row) -> bool:
    return bool(have.get(row["name"], {}).get("hold"))


def _named(simulated: Done, *verbs: str) -> set[str]:
    return {line.split()[1] for line in _text(simulated.stdout) if line.startswith(verbs)}


def _needs_install(row: Row, have: Row | None) -> bool:
    return have is None or row["version"] not in (None, have["version"])


def _target(row: Row, bundle: str) -> str:
    if row.get("deb"):
        return os.path.join(bundle, row["deb"])
    return f"{row['name']}={row['version']}" if row["version"] else str(row["name"])


def _family_targets(rows: list[Row]) -> list[str]:
    """Members at another version than their pin's, each with the version that some repository has of it.

    What none has is left to apt: a newer driver may come without it.
    """
    installed = dpkg_status([]) if any(row.get("family") for row in rows) else {}
    found = []
    for row in rows:
        for name in sorted(astray(row, installed)) if row.get("family") else ():
            offered = [v for v in _offered(name) if upstream(v) == upstream(row["version"])]
            found += (
                [f"{name}={row['version'] if row['version'] in offered else offered[0]}"] if offered else []
            )
    return found


def _offered(name: str) -> list[str]:
    """Versions that the repositories have, the newest first: `name | version | source` lines."""
    lines = _text(_run(["apt-cache", "madison", name]).stdout)
    return [parts[1].strip() for parts in (line.split("|") for line in lines) if len(parts) > 2]


def _consent(rows: list[Row], have: Rows, downgrade: bool) -> list[str]:
    held = any(row.get("family") or _is_held(have, row) for row in rows)
    return (["--allow-change-held-packages"] if held else []) + (["--allow-downgrades"] if downgrade else [])


def _candidates(rows: list[Row]) -> str:
    """Wanted and available versions of the packages that come from repositories."""
    words = []
    for row in rows:
        if not row.get("deb"):
            lines = _text(_run(["apt-cache", "policy", row["name"]]).stdout)
            words.append(f"{row['name']}: wanted {row['version'] or 'any'}, offered {candidate(lines)}")
    return "; ".join(words)


def candidate(policy: list[str]) -> str:
    """`1.10 (file:/srv/repo ./)` of what `apt-cache policy` prints: the version, and where it comes from."""
    lines = [line.strip() for line in policy]
    version = next((line.split()[1] for line in lines if line.startswith("Candidate: ")), "none")
    for line, after in zip(lines, lines[1:]):
        if line.removeprefix("*** ").split()[:1] == [version] and after[:1].isdigit():
            return f"{version} ({after.partition(' ')[2].removesuffix(' Packages')})"
    return version


def _run(command: list[str]) -> Done:
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


def _must(done: Done, what: str, more: str = "") -> None:
    """The reasons: apt's `E:` lines, what dpkg and scripts said, what apt says of held packages."""
    if not done.returncode:
        return
    lines = [line.strip() for line in _text(done.stderr) if not line.startswith(NOISE)]
    reasons = [line for line in lines if line.startswith("E:")] or lines[-3:]
    if any("Sub-process" in line for line in reasons):
        reasons = lines[-6:]
    if any("held broken packages" in line for line in reasons):
        reasons += [line.strip() for line in _text(done.stdout) if " : " in line][:5]
    said = " / ".join(reasons[:8] or _text(done.stdout)[-3:])
    raise Problem(f"{what} failed: {said}{f' ({more})' if more else ''}")


def _text(data: bytes) -> list[str]:
    return [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
