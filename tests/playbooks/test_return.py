"""A proxy killed in the middle of a rollout: systemd brings it back, and nobody restarts undrained."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_return
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_drain import drain

from tests.playbooks.front import front, hurry, systemd_says, until

KILLED = {"ActiveState": "activating", "SubState": "auto-restart"}
STARTED = {"ActiveState": "active", "SubState": "running", "MainPID": "1"}
STOPPED = {"ActiveState": "inactive", "SubState": "dead"}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(pdctl_return, "RETURN_S", 0.4)
    monkeypatch.setattr(pdctl_return, "PAUSE_S", 0.05)


def nobody(folder: Path) -> dict[str, Any]:
    """A drain where nobody listens."""
    control = str(folder / "none.sock")
    return {"cluster": "chat", "control": control, "drain": ["server-0"], "lease_s": 0.1, "timeout_s": 5}


@pytest.mark.parametrize("state", [KILLED, STARTED, KILLED | {"UnitFileState": "disabled"}])
def test_one_that_systemd_brings_back_is_waited_for_and_drains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: dict[str, str]
) -> None:
    systemd_says(monkeypatch, tmp_path, **state)
    monkeypatch.setattr(pdctl_return, "RETURN_S", 30.0)
    with front(tmp_path) as proxy:
        proxy.kill()
        did: list[str] = []
        request = dict(nobody(tmp_path), control=proxy.control, sides=["server-0"])
        waiting = threading.Thread(target=drain, args=(request, False, did))
        waiting.start()
        until((tmp_path / "asked").exists)  # it has found nobody, and asked systemd why
        assert not did
        proxy.start()
        waiting.join(10)
        assert did == ["keep server-0 apart from the others", "drain server-0"]
        assert proxy.drained() == ["server-0"]


@pytest.mark.parametrize("state", [KILLED, STARTED, STOPPED | {"Job": "77"}])
@pytest.mark.parametrize("dry", [False, True])
def test_one_that_does_not_come_back_ends_the_rollout_with_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: dict[str, str], dry: bool
) -> None:
    systemd_says(monkeypatch, tmp_path, **state)
    did: list[str] = []
    with pytest.raises(Problem) as error:
        drain(nobody(tmp_path), dry, did)
    words = str(error.value)
    assert words.startswith("the proxy has not come back for 0.4 s: pdctl-chat-proxy.service is ")
    assert f"no proxy listens on {tmp_path}/none.sock" in words and "nothing more was restarted" in words
    assert "`journalctl -u pdctl-chat-proxy.service`" in words and "run the same command again" in words
    assert "`systemctl stop pdctl-chat-proxy.service`" in words
    assert did == []


@pytest.mark.parametrize(
    "state",
    [
        STOPPED,
        STOPPED | {"Job": "0"},
        STOPPED | {"UnitFileState": "disabled"},
        STOPPED | {"LoadState": "not-found"},
        STOPPED | {"LoadState": "masked"},
        {"ActiveState": "failed", "SubState": "failed"},
    ],
)
def test_where_none_is_to_come_there_is_nothing_to_drain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: dict[str, str]
) -> None:
    systemd_says(monkeypatch, tmp_path, **state)
    did: list[str] = []
    assert drain(nobody(tmp_path), False, did) is False
    assert did[0].startswith("nothing to drain: no proxy listens on ")


def test_one_that_is_stopped_while_it_is_waited_for_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd_says(monkeypatch, tmp_path, **KILLED)
    monkeypatch.setattr(pdctl_return, "RETURN_S", 30.0)
    did: list[str] = []
    waiting = threading.Thread(target=drain, args=(nobody(tmp_path), False, did))
    waiting.start()
    until((tmp_path / "asked").exists)
    systemd_says(monkeypatch, tmp_path, **STOPPED)
    waiting.join(10)
    assert did and did[0].startswith("nothing to drain: ")


def test_where_systemd_cannot_say_nobody_restarts_undrained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd_says(monkeypatch, tmp_path, **STOPPED)
    (tmp_path / "state").unlink()
    with pytest.raises(OSError, match="cannot ask systemd"):
        drain(nobody(tmp_path), False, [])
