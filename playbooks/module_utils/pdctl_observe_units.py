"""Unit rows -> rows as systemd and the running processes show them."""

from __future__ import annotations

import os
import subprocess

from ansible.module_utils.pdctl_control import (
    START_S,
    AbsentError,
    ControlError,
    ForeignError,
    SilentError,
    proxy_state,
)
from ansible.module_utils.pdctl_process import replaced_program, short_limits
from ansible.module_utils.pdctl_rows import Row
from ansible.module_utils.pdctl_sockets import ports_of

PROPERTIES = (
    "Id,LoadState,ActiveState,SubState,UnitFileState,MainPID,ControlGroup,NeedDaemonReload,DropInPaths,"
    "InvocationID,NRestarts,Result,Job,CacheDirectory,RuntimeDirectory"
)
NOTHING_LOADED: Row = {"loaded": "", "drained": [], "sides": []}
State = dict[str, str]  # PROPERTIES of one unit, as systemctl shows them
REVISION = "PDCTL_REVISION"
DROP_IN_ROOTS = (
    "/etc/systemd/system",
    "/etc/systemd/system.control",
    "/run/systemd/system",
    "/run/systemd/system.control",
)

# Set by systemd itself: systemd.exec(5), "Environment Variables in Spawned Processes" (252 to 257).
SYSTEMD_VARIABLES = frozenset(
    [
        REVISION,
        *("PATH", "LANG", "USER", "LOGNAME", "HOME", "SHELL", "INVOCATION_ID", "XDG_RUNTIME_DIR"),
        *("RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY"),
        *("CONFIGURATION_DIRECTORY", "CREDENTIALS_DIRECTORY", "MAINPID", "MANAGERPID", "LISTEN_FDS"),
        *("LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"),
        *("SYSTEMD_EXEC_PID", "TERM", "COLORTERM", "NO_COLOR", "LOG_NAMESPACE", "JOURNAL_STREAM"),
        *("SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS", "PIDFILE", "REMOTE_ADDR", "REMOTE_PORT"),
        *("TRIGGER_UNIT", "TRIGGER_PATH", "TRIGGER_TIMER_REALTIME_USEC", "TRIGGER_TIMER_MONOTONIC_USEC"),
        *("MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE", "FDSTORE"),
    ]
)
# Exported by the /bin/sh that starts a script of a relocatable venv: dash(1), bash(1).
SHELL_VARIABLES = frozenset(("PWD", "OLDPWD", "SHLVL", "_"))


def observe_units(rows: list[Row], ours: set[str]) -> list[Row]:
    states = unit_states([row["name"] for row in rows])
    manager: dict[str, str] = {}
    found = [observe_unit(row, states.get(row["name"], {}), ours, manager) for row in rows]
    return [row for row in found if row is not None]


def observe_unit(row: Row, state: State, ours: set[str], manager: dict[str, str]) -> Row | None:
    running = int(state.get("MainPID") or 0)
    if not state or (state["LoadState"] == "not-found" and not running):
        return None
    environment = process_environment(running, state)
    # What it was started from is not what is wanted now: how it differs from that says nothing.
    other = REVISION in environment and row.get("revision") not in (None, environment[REVISION])
    deviations = []
    if REVISION in environment and not other:
        deviations += argv_deviations(row, running) + environment_deviations(row, environment, manager)
        deviations += short_limits(row, running) + replaced_program(running)
    if state["NeedDaemonReload"] == "yes":
        deviations.append("needs daemon-reload")
    deviations += [f"drop-in {path}" for path in drop_ins(row["name"], state) if path not in ours]
    return {
        "kind": "unit",
        "name": row["name"],
        "enabled": state["UnitFileState"] == "enabled",
        "active": activity(state),
        "revision": environment.get(REVISION, ""),
        "deviations": deviations,
        **(taken_up(row) if REVISION in environment else NOTHING_LOADED),
        "invocation": state["InvocationID"],
        "control": row.get("control") or "",
        "ports": ports_of(members(state["ControlGroup"])) if other else [],
        "crashes": int(state.get("NRestarts") or 0),
    }


def taken_up(row: Row) -> Row:
    """A proxy that is there and says nothing cannot be observed; to restart it would be an outage."""
    try:
        return observe_control(row.get("control") or "")
    except ControlError as error:
        name = row["name"]
        raise OSError(0, f"{name}: {error}; if it stays so, `systemctl restart {name}` there") from None


def observe_control(path: str) -> Row:
    """What a running proxy says of itself; nothing when only a restart brings one that can be asked."""
    if not path:
        return NOTHING_LOADED
    try:
        try:
            said = proxy_state(path, START_S)
        except SilentError:
            said = proxy_state(path, START_S)  # it may have been busy
    except (AbsentError, ForeignError):
        return NOTHING_LOADED
    drained = [member["name"] for member in said["members"] if member["drained"]]
    return {"loaded": said["config"], "drained": sorted(drained), "sides": sorted(said["sides"])}


def unit_states(names: list[str]) -> dict[str, State]:
    """{unit: properties}, from one systemctl call; empty where systemd does not run."""
    try:
        done = subprocess.run(
            ["systemctl", "show", "--property", PROPERTIES, "--", *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            check=False,
        )
    except FileNotFoundError:
        return {}
    if done.returncode:
        raise OSError(0, done.stderr.decode("utf-8", "replace").strip() or "systemctl show failed")
    blocks = done.stdout.decode("utf-8", "replace").strip("\n").split("\n\n")
    states = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in blocks]
    return dict(zip(names, states))


def activity(state: State) -> str:
    if state["LoadState"] == "masked":
        return "masked"
    active, sub = state["ActiveState"], state["SubState"]
    if active == "active" and sub == "running":
        return "active"
    return active if active in ("inactive", "failed") else f"{active}/{sub}"


def drop_ins(name: str, state: State) -> list[str]:
    """Drop-ins for this very unit, loaded or only lying there; those for all services are the host's own."""
    folders = [os.path.join(root, name + ".d") for root in DROP_IN_ROOTS]
    lying = [
        os.path.join(folder, entry)
        for folder in folders
        if os.path.isdir(folder)
        for entry in os.listdir(folder)
        if entry.endswith(".conf")
    ]
    loaded = [path for path in state["DropInPaths"].split() if os.path.dirname(path) in folders]
    return sorted({*lying, *loaded})


def argv_deviations(row: Row, pid: int) -> list[str]:
    """Interpreters that the kernel or a trampoline put in front of a script are no difference."""
    wanted = [os.fsencode(word) for word in row.get("argv") or ()]
    words = _proc(pid, "cmdline")
    if not wanted or not words or words[-len(wanted) :] == wanted:
        return []
    return ["argv differs"]


def environment_deviations(row: Row, environment: dict[str, str], manager: dict[str, str]) -> list[str]:
    """How the process's start environment differs from its unit's; secrets only by their presence."""
    if not row.get("argv"):
        return []
    wanted = dict(tuple(pair) for pair in row.get("environment") or ())
    secret = set(row.get("secret_names") or ())
    added = environment.keys() - wanted.keys() - secret - SYSTEMD_VARIABLES - SHELL_VARIABLES
    added = {name for name in added if not name.startswith("LC_")}
    if added and not manager:
        manager.update(manager_environment())
    words = {name: "added" for name in added if environment[name] != manager.get(name)}
    words.update((name, "missing") for name in (wanted.keys() | secret) - environment.keys())
    words.update(
        (name, "changed") for name in wanted.keys() & environment.keys() if environment[name] != wanted[name]
    )
    return [f"environment: {name} {word}" for name, word in sorted(words.items())]


def process_environment(pid: int, state: State) -> dict[str, str]:
    """The environment the main process was started with.

    A process that sets its own title (setproctitle) overwrites these bytes; then any other process of the
    unit that kept its copy still tells the revision, and the rest is unknown.
    """
    own = _environment(pid) if pid else {}
    if not pid or REVISION in own:
        return own
    for other in members(state["ControlGroup"]):
        theirs = _environment(other)
        if REVISION in theirs:
            return {REVISION: theirs[REVISION]}
    return {}


def _environment(pid: int) -> dict[str, str]:
    pairs = (os.fsdecode(entry).partition("=") for entry in _proc(pid, "environ"))
    return {name: value for name, equals, value in pairs if equals}


def _proc(pid: int, name: str) -> list[bytes]:
    """The NUL-separated words of /proc/PID/NAME; none when the process has just ended."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as handle:
            text = handle.read()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[:-1].split(b"\0") if text else []


def members(control_group: str) -> list[int]:
    """Process ids of a unit's control group, in either hierarchy layout."""
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd"):
        path = root + control_group + "/cgroup.procs"
        if control_group and os.path.exists(path):
            with open(path, encoding="ascii") as handle:
                return [int(line) for line in handle]
    return []


def manager_environment() -> dict[str, str]:
    """What the administrator gave to every service (systemctl set-environment)."""
    done = subprocess.run(
        ["systemctl", "show-environment"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    pairs = (line.partition("=") for line in done.stdout.decode("utf-8", "replace").splitlines())
    return {name: value for name, _, value in pairs}
