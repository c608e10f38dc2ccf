from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_observe_units
from ansible.module_utils.pdctl_observe_facts import parse_gpus
from ansible.module_utils.pdctl_observe_units import observe_unit, process_environment

WAIT = "import sys; print('up', flush=True); sys.stdin.read()"
ARGV = [sys.executable, "-c", WAIT]
STATE = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "UnitFileState": "enabled",
    "ControlGroup": "",
    "NeedDaemonReload": "no",
    "DropInPaths": "",
    "InvocationID": "i1",
}
ROW: dict[str, Any] = {
    "kind": "unit",
    "name": "pdctl-chat-decoder-0.service",
    "argv": ARGV,
    "environment": [["GREETING", "hello world"], ["EMPTY", ""]],
    "secret_names": ["HF_TOKEN"],
}
ENVIRONMENT = {
    "PDCTL_REVISION": "r1",
    "GREETING": "hello world",
    "EMPTY": "",
    "HF_TOKEN": "hf_secret",
    "INVOCATION_ID": "i1",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
}


@contextmanager
def process(argv: list[str] = ARGV, **environment: str) -> Iterator[dict[str, str]]:
    """A real process in the place of a unit's; the properties systemd would show."""
    with subprocess.Popen(
        argv, env={**ENVIRONMENT, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        yield dict(STATE, MainPID=str(running.pid))


def seen(state: dict[str, str], row: dict[str, Any] = ROW) -> dict[str, Any]:
    found: dict[str, Any] = observe_unit(row, state, set(), {"FROM_MANAGER": "1"})
    return found


def test_a_process_as_its_unit_asks_shows_no_deviation() -> None:
    with process() as state:
        assert seen(state) == {
            "kind": "unit",
            "name": "pdctl-chat-decoder-0.service",
            "enabled": True,
            "active": "active",
            "revision": "r1",
            "deviations": [],
            "loaded": "",
            "drained": [],
            "sides": [],
            "invocation": "i1",
            "control": "",
            "ports": [],
            "crashes": 0,
        }


def test_each_difference_of_the_environment_is_named_without_its_value() -> None:
    row = dict(ROW, environment=[["GREETING", "hello"], ["WANTED", "x"]], secret_names=["OTHER_TOKEN"])
    with process(DEBUG="1", FROM_MANAGER="1") as state:
        assert seen(state, row)["deviations"] == [
            "environment: DEBUG added",
            "environment: EMPTY added",
            "environment: GREETING changed",
            "environment: HF_TOKEN added",
            "environment: OTHER_TOKEN missing",
            "environment: WANTED missing",
        ]


def test_another_command_line_is_a_deviation() -> None:
    with process([*ARGV, "--more"]) as state:
        assert seen(state)["deviations"] == ["argv differs"]


def test_a_process_of_an_older_configuration_is_not_held_against_the_new_one() -> None:
    with process([*ARGV, "--more"], DEBUG="1") as state:
        row = seen(state, dict(ROW, revision="r2"))
        assert (row["revision"], row["deviations"]) == ("r1", [])
        assert seen(state, dict(ROW, revision="r1"))["deviations"] == [
            "argv differs",
            "environment: DEBUG added",
        ]


def test_how_often_systemd_started_it_again_is_counted() -> None:
    with process() as state:
        assert seen(dict(state, NRestarts="4"))["crashes"] == 4


def test_an_interpreter_before_a_script_is_none() -> None:
    with process() as state:
        assert seen(state, dict(ROW, argv=ARGV[1:]))["deviations"] == []


def test_a_recorded_row_without_argv_asks_for_no_comparison() -> None:
    with process(DEBUG="1") as state:
        row = {"kind": "unit", "name": ROW["name"]}
        assert seen(state, row)["deviations"] == []


def test_a_process_that_lost_its_environment_hides_its_deviations() -> None:
    with process() as state:
        assert process_environment(int(state["MainPID"]), state)["PDCTL_REVISION"] == "r1"
    with process(["/usr/bin/env", "-i", *ARGV]) as state:
        assert seen(state)["revision"] == "" and seen(state)["deviations"] == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ActiveState": "failed", "SubState": "failed"}, "failed"),
        ({"ActiveState": "inactive", "SubState": "dead"}, "inactive"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "activating/auto-restart"),
        ({"ActiveState": "active", "SubState": "exited"}, "active/exited"),
        ({"LoadState": "masked", "ActiveState": "inactive"}, "masked"),
    ],
)
def test_a_unit_that_does_not_run_says_how(changes: dict[str, str], expected: str) -> None:
    row = seen({**STATE, "MainPID": "0", **changes})
    assert (row["active"], row["revision"], row["deviations"]) == (expected, "", [])


def test_a_forgotten_reload_and_a_foreign_drop_in_are_deviations() -> None:
    drop_in = f"/run/systemd/system/{ROW['name']}.d/50-x.conf"
    state = {
        **STATE,
        "MainPID": "0",
        "NeedDaemonReload": "yes",
        "DropInPaths": f"/etc/systemd/system/service.d/all.conf {drop_in}",
    }
    assert seen(state)["deviations"] == ["needs daemon-reload", f"drop-in {drop_in}"]
    assert observe_unit(ROW, state, {drop_in}, {})["deviations"] == ["needs daemon-reload"]


def test_an_unknown_unit_is_absent_but_its_running_process_is_not() -> None:
    state = {**STATE, "LoadState": "not-found", "UnitFileState": ""}
    assert observe_unit(ROW, {**state, "MainPID": "0"}, set(), {}) is None
    assert seen({**state, "MainPID": str(os.getpid())})["enabled"] is False


def test_gpus_are_read_from_nvidia_smis_table() -> None:
    text = (
        "0, GPU-7a, NVIDIA H100 80GB HBM3, 81559, 4, 580.95.05, 00000000:1B:00.0, Disabled\n"
        "1, GPU-7b, NVIDIA H100 80GB HBM3, 81559, [N/A], 580.95.05, 00000000:43:00.0, Disabled\n"
    )
    first, second = parse_gpus(text)
    assert first["index"] == 0 and first["name"] == "NVIDIA H100 80GB HBM3" and first["memory_total"] == 81559
    assert second["memory_used"] is None and second["pci_bus_id"] == "00000000:43:00.0"
    assert parse_gpus("No devices were found\n") == []


def test_a_process_other_than_the_wanted_one_tells_the_ports_it_listens_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its files may be new already: nothing else tells what another unit has to wait for."""
    with socket.create_server(("127.0.0.1", 0)) as server, process() as state:
        monkeypatch.setattr(pdctl_observe_units, "members", lambda group: [os.getpid()])
        assert server.getsockname()[1] in seen(state, ROW | {"revision": "r2"})["ports"]
        assert seen(state, ROW | {"revision": "r1"})["ports"] == []


def test_a_program_that_was_replaced_while_it_ran_is_a_deviation(tmp_path: Path) -> None:
    """As by an upgrade of Python under it: the new file has the old one's name."""
    program = tmp_path / "sh"
    shutil.copy("/bin/sh", program)
    argv = [str(program), "-c", "echo up; read line"]
    with process(argv) as state:
        row = {**ROW, "argv": argv}
        assert seen(state, row)["deviations"] == []
        shutil.copy("/bin/sh", tmp_path / "new")
        (tmp_path / "new").rename(program)
        assert seen(state, row)["deviations"] == [f"runs with a replaced {program}: restart pending"]
        assert seen(state, {**row, "revision": "r2"})["deviations"] == []  # it restarts for that anyway
