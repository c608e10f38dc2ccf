"""Unit rows -> running, enabled services of the wanted revision, and nothing else touched."""

from __future__ import annotations

import contextlib
import glob
import os
import subprocess
from collections.abc import Iterable

from ansible.module_utils.pdctl_difference import Problem, difference
from ansible.module_utils.pdctl_files import run
from ansible.module_utils.pdctl_observe_units import State, drop_ins, unit_states
from ansible.module_utils.pdctl_reload import TAKEN_UP, gentle_words, take_up
from ansible.module_utils.pdctl_rows import Row, Rows

MADE_BY_SYSTEMD = (("/var/cache", "CacheDirectory"), ("/run", "RuntimeDirectory"))
DROP_IN = "drop-in "  # how the deviation for one begins: see pdctl_observe_units
RELOAD = "needs daemon-reload"  # mended without a restart: see Work.with_restart
STOPPED = ("inactive", "failed")  # a masked one may still run: it is restarted


def put_units(rows: list[Row], have: Rows, ours: set[str]) -> tuple[set[str], list[str]]:
    """Everything queued at once: systemd does the work in parallel, the wait for health comes after.

    Returns the units that were started or restarted, and the drop-ins of others that were removed.
    """
    names = [row["name"] for row in rows]
    states = unit_states(names)
    removed = remove_drop_ins(
        {name: drop_ins(name, states.get(name, {"DropInPaths": ""})) for name in names}, ours
    )
    masked = [name for name in names if states.get(name, {}).get("LoadState") == "masked"]
    if masked:
        run(["systemctl", "unmask", *masked], "unmask")
    stale = [name for name in names if states[name]["NeedDaemonReload"] == "yes"]
    unknown = [name for name in names if states[name]["LoadState"] != "loaded"]
    if removed or masked or stale or unknown:
        run(["systemctl", "daemon-reload"], "read the unit files again")
    _must_be_loaded(names)
    enable = [row["name"] for row in rows if states[row["name"]]["UnitFileState"] != "enabled"]
    if enable:
        run(["systemctl", "enable", "--quiet", *enable], "enable")
    return queue(rows, have), removed


def queue(rows: list[Row], have: Rows) -> set[str]:
    """Restart what runs in another form than wanted and cannot change it itself, start what does not run."""
    start = [row["name"] for row in rows if is_stopped(have.get(row["name"]))]
    running = [row for row in rows if row["name"] not in start]
    restart = [row["name"] for row in running if needs_restart(row, have[row["name"]])]
    gentle = [row for row in running if row["name"] not in restart and gentle_words(row, have[row["name"]])]
    restart += [row["name"] for row in gentle if not take_up(row)]
    if start:
        subprocess.run(["systemctl", "reset-failed", *start], stderr=subprocess.DEVNULL, check=False)
        run(["systemctl", "start", "--no-block", *start], "start")
    if restart:
        run(["systemctl", "restart", "--no-block", *restart], "restart")
    return {*start, *restart}


def is_stopped(have: Row | None) -> bool:
    return have is None or have["active"] in STOPPED


def needs_restart(want: Row, have: Row) -> bool:
    differs = any(want[name] != have[name] for name in ("active", "revision"))
    silent = want.get("loaded") and not have["loaded"]  # a proxy that nobody can reach to reload or drain
    return bool(differs or silent or set(have["deviations"]) - {RELOAD} or want.get("restart"))


def unit_headline(want: Row, have: Row | None) -> str:
    name = want["name"]
    if have is None:
        return f"start {name}"
    if is_stopped(have):
        return f"start {name}: it was {have['active']}"
    # What is done about drop-ins is told in lines of their own: drop_in_lines.
    words = difference(want, have)
    if needs_restart(want, have):
        return f"restart {name}: {'; '.join(words) or 'what it works with was restarted'}"
    gentle = gentle_words(want, have)
    taken_up = dict(have, **{field: want.get(field) for field in TAKEN_UP})
    rest = difference(want, taken_up) if gentle else words
    verb = "reload" if have["enabled"] else "enable"
    return "; ".join([f"{verb} {name}: {'; '.join(rest)}"] * bool(rest) + gentle)


def drop_in_lines(paths: Iterable[str]) -> list[str]:
    """Somebody wrote them: that they go is never left unsaid."""
    return [f"remove drop-in {path}" for path in paths]


def dropped_in(have: Row | None) -> list[str]:
    """The drop-ins of others that were seen beside a unit."""
    found = [word.partition(DROP_IN)[2] for word in (have or {}).get("deviations", ())]
    return [path for path in found if path]


def halt_units(names: list[str]) -> None:
    """Stopped for now, so that what they hold is free: they are started again in their own turn."""
    run(["systemctl", "stop", *names], "stop")


def remove_units(names: list[str]) -> None:
    """Stopped, disabled, their caches removed; the unit files go as file rows."""
    states = unit_states(names)
    known = [name for name in names if states.get(name, {}).get("LoadState") == "loaded"]
    running = [name for name in names if states.get(name, {}).get("ActiveState", "inactive") != "inactive"]
    if running:
        run(["systemctl", "stop", *running], "stop")
        subprocess.run(["systemctl", "reset-failed", *running], stderr=subprocess.DEVNULL, check=False)
    if known:
        run(["systemctl", "disable", "--quiet", *known], "disable")
    for name in names:
        for link in glob.glob(f"/etc/systemd/system/*.*/{glob.escape(name)}"):
            os.unlink(link)  # what `disable` leaves when the unit file is already gone
    remove_drop_ins({name: drop_ins(name, states.get(name, {"DropInPaths": ""})) for name in names}, set())
    clean(known, states)


def clean(names: list[str], states: dict[str, State]) -> None:
    """What systemd made for these units (CacheDirectory=, RuntimeDirectory=), and empty parents of that."""
    caching = [name for name in names if states[name]["CacheDirectory"]]
    if caching:
        run(["systemctl", "clean", "--what=cache", *caching], "remove caches")
    for name in names:
        for root, field in MADE_BY_SYSTEMD:
            for folder in states[name][field].split():
                parts = folder.split("/")[:-1]
                with contextlib.suppress(OSError):
                    while parts:
                        os.rmdir(os.path.join(root, *parts))
                        parts.pop()


def remove_drop_ins(paths: dict[str, list[str]], ours: set[str]) -> list[str]:
    gone = [path for some in paths.values() for path in some if path not in ours]
    for path in gone:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))
    return gone


def _must_be_loaded(names: list[str]) -> None:
    bad = {name: state for name, state in unit_states(names).items() if state["LoadState"] != "loaded"}
    if bad:
        words = [f"{name} ({state['LoadState']})" for name, state in sorted(bad.items())]
        raise Problem(f"systemd cannot load {', '.join(words)}: systemd-analyze verify UNIT tells why")
