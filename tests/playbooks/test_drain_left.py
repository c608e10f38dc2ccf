"""A drain whose controller has gone or whose lock is another's: it undoes nothing of the next apply."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_drain
from ansible.module_utils.pdctl_control import ask_proxy
from ansible.module_utils.pdctl_difference import told
from ansible.module_utils.pdctl_drain import drain
from ansible.module_utils.pdctl_lock import take
from ansible.module_utils.pdctl_record import Record

from pdctl.assets import assets
from tests.playbooks.conftest import needs_root
from tests.playbooks.front import Front, front, until

DRAINING = """
import json, sys
import ansible.module_utils
ansible.module_utils.__path__.append(sys.argv[1])
from ansible.module_utils import pdctl_drain
try:
    pdctl_drain.drain(json.loads(sys.argv[2]), False, [])
except pdctl_drain.Problem as problem:
    sys.stderr.write(f"{problem}\\n")
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with front(tmp_path_factory.mktemp("front"), 2) as proxy:
        yield proxy


def work_at_one(proxy: Front) -> str:
    """The name of an instance that has a request which does not end."""
    for engine in proxy.only(2).engines.values():
        engine.gate.clear()
    proxy.ask()
    until(lambda: any(member["in_flight"] for member in proxy.members().values()))
    return next(name for name, member in proxy.members().items() if member["in_flight"])


def asked(proxy: Front, **more: Any) -> dict[str, Any]:
    return {"cluster": "chat", "control": proxy.control, "lease_s": 0.1, "timeout_s": 30, **more}


def test_who_is_heard_no_more_does_not_drain_again_what_the_next_apply_undrained(shared: Front) -> None:
    busy = work_at_one(shared)
    request = json.dumps(asked(shared, drain=[busy]))
    command = [sys.executable, "-c", DRAINING, str(assets("playbooks") / "module_utils"), request]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as module:
        try:
            assert module.stdout and module.stderr
            until(lambda: shared.drained() == [busy])
            module.stdout.close()
            ask_proxy(shared.control, "POST", "/undrain", {"instances": [busy]})
            until(lambda: module.poll() is not None, 5)
            assert module.stderr.read() == "the controller has left; what was done is recorded\n"
        finally:
            module.kill()
    assert shared.drained() == []


class Drainer(threading.Thread):
    """A drain under the lock of token `t1`; `said` is what it ended with."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__()
        self.request = request
        self.said = ""
        self.start()

    def run(self) -> None:
        try:
            drain(self.request, False, [])
        except pdctl_drain.Problem as problem:
            self.said = told(problem)


def locked(tmp_path: Path, token: str, by: str = "ann@desk") -> str:
    folder = tmp_path / "chat"
    folder.mkdir(exist_ok=True)
    take(str(folder), {"token": token, "by": by, "command": "pdctl apply"})
    return str(folder / "record.json")


def test_who_has_lost_the_lock_does_not_drain_again_what_the_next_apply_undrained(
    shared: Front, tmp_path: Path
) -> None:
    busy = work_at_one(shared)
    record = locked(tmp_path, "t1")
    drainer = Drainer(asked(shared, drain=[busy], record=record, token="t1"))
    until(lambda: shared.drained() == [busy])
    locked(tmp_path, "t2", "bob@desk")
    ask_proxy(shared.control, "POST", "/undrain", {"instances": [busy]})
    drainer.join(5)
    assert not drainer.is_alive() and shared.drained() == []
    assert drainer.said == (
        "this apply has lost its lock on this host: bob@desk has it (`pdctl apply`); "
        "it does nothing more here"
    )


@needs_root
def test_who_has_lost_the_lock_gives_nothing_up_and_records_nothing(shared: Front, tmp_path: Path) -> None:
    """What the next apply drains stays drained when the patience of the earlier one ends."""
    busy = work_at_one(shared)
    path = locked(tmp_path, "t1")
    name = "unit:pdctl-chat-proxy.service"
    record = Record(path, "chat")
    record.rows[name] = {
        "kind": "unit",
        "name": name[5:],
        "control": shared.control,
        "drained": [],
        "sides": [],
    }
    record.write()
    drainer = Drainer(asked(shared, drain=[busy], record=path, token="t1", timeout_s=1))
    until(lambda: Record(path, "chat").rows[name]["drained"] == [busy])
    locked(tmp_path, "t2", "bob@desk")
    idle = next(each for each in shared.members() if each != busy)
    ask_proxy(shared.control, "POST", "/drain", {"instances": [idle]})
    drainer.join(10)
    assert "bob@desk has it" in drainer.said
    assert shared.drained() == sorted([busy, idle])
    assert Record(path, "chat").rows[name]["drained"] == [busy]


def test_what_somebody_undrains_again_and_again_is_given_up_in_time(shared: Front) -> None:
    busy = work_at_one(shared)
    drainer = Drainer(asked(shared, drain=[busy], timeout_s=0.5))
    until(lambda: shared.drained() == [busy])

    def undrained_until_it_ends() -> bool:
        ask_proxy(shared.control, "POST", "/undrain", {"instances": [busy]})
        return not drainer.is_alive()

    until(undrained_until_it_ends)
    assert " after 0.5 s: all serve again" in drainer.said
