"""The drain module against a real proxy with real requests in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_drain
from ansible.module_utils.pdctl_control import ControlError, ask_proxy, proxy_state
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_drain import drain
from ansible.module_utils.pdctl_record import Record

from tests.playbooks.conftest import needs_root
from tests.playbooks.front import Front, front, hurry, systemd_says, until


def asked(proxy: Front, **more: Any) -> dict[str, Any]:
    return {"cluster": "chat", "control": proxy.control, "lease_s": 0.1, "timeout_s": 5, **more}


def done(request: dict[str, Any], dry: bool = False) -> list[str]:
    did: list[str] = []
    assert drain(request, dry, did) is (bool(did) and not did[0].startswith("nothing"))
    return did


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """One proxy for all that leave it alive."""
    with front(tmp_path_factory.mktemp("front"), 3) as proxy:
        yield proxy


def test_it_undrains_then_drains_and_says_so_once(shared: Front) -> None:
    proxy = shared.only(2)
    assert done(asked(proxy, drain=["server-0"])) == ["drain server-0"]
    request = asked(proxy, undrain=["server-0"], drain=["server-1"])
    assert done(request) == ["undrain server-0", "drain server-1"]
    assert proxy.drained() == ["server-1"]
    assert done(asked(proxy, undrain=["server-1", "server-0"])) == ["undrain server-1"]
    assert done(asked(proxy, undrain=["server-1", "server-0"])) == []


def test_it_waits_until_what_is_in_flight_has_finished_and_the_lease_is_over(
    shared: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = shared.only(1)
    proxy.engines["server-0"].gate.clear()
    proxy.ask()
    until(lambda: proxy.members()["server-0"]["in_flight"] == 1)
    ended: list[float] = []
    looks: list[str] = []  # what it saw of server-0 while that had its request

    def seen(path: str, patience_s: float = 0.0) -> dict[str, Any]:
        state: dict[str, Any] = proxy_state(path, patience_s)
        looks.extend(member["name"] for member in state["members"] if member["drained"])
        return state

    def work() -> None:
        done(asked(proxy, drain=["server-0"], lease_s=0.4))
        ended.append(time.monotonic())

    monkeypatch.setattr(pdctl_drain, "proxy_state", seen)
    waiting = threading.Thread(target=work)
    waiting.start()
    until(lambda: len(looks) > 2)  # it has looked more than once, and waits on
    assert not ended
    opened = time.monotonic()
    proxy.engines["server-0"].gate.set()
    waiting.join()
    assert ended[0] - opened >= 0.4


def test_the_lease_of_an_instance_that_moved_counts_from_its_last_request_at_the_former_address(
    shared: Front,
) -> None:
    proxy = shared.only(1)
    proxy.engines["server-0"].gate.clear()
    proxy.ask()
    until(lambda: proxy.members()["server-0"]["in_flight"] == 1)
    proxy.write([], servers=[{"name": "server-0", "url": proxy.engines["server-1"].url}])
    ended: list[float] = []

    def work() -> None:
        done(asked(proxy, drain=["server-0"], reload=True, lease_s=0.4))
        ended.append(time.monotonic())

    waiting = threading.Thread(target=work)
    waiting.start()
    # The new member has been idle for longer than the lease while the former one still works.
    begun = time.monotonic()
    until(lambda: proxy.drained() == ["server-0"] and time.monotonic() - begun > 0.5)
    assert [member["name"] for member in proxy_state(proxy.control)["leaving"]] == ["server-0"]
    opened = time.monotonic()
    proxy.engines["server-0"].gate.set()
    waiting.join()
    assert ended[0] - opened >= 0.4


def test_what_does_not_finish_in_time_serves_again_and_is_named(shared: Front) -> None:
    proxy = shared.only(3)
    ask_proxy(proxy.control, "POST", "/drain", {"instances": ["server-2"]})
    for engine in proxy.engines.values():
        engine.gate.clear()
    for _ in range(3):
        proxy.ask()
    until(lambda: sum(member["in_flight"] for member in proxy.members().values()) == 3)
    busy = [name for name, member in proxy.members().items() if member["in_flight"] == 1]
    with pytest.raises(Problem) as error:
        done(asked(proxy, drain=[*busy, "server-2"], timeout_s=0.2))
    words = f"{busy[0]} still has 1 request after 0.2 s: all serve again, and nothing more was restarted."
    assert str(error.value).startswith(words) and "run the same command again" in str(error.value)
    assert proxy.drained() == ["server-2"], "only what this call drained is undrained"


def test_check_mode_tells_and_does_nothing(shared: Front) -> None:
    proxy = shared.only(2)
    request = asked(proxy, drain=["server-0"], sides=["server-1"], reload=True)
    assert done(request, dry=True) == [
        "have the proxy read its list of instances again",
        "keep server-1 apart from the others",
        "drain server-0",
    ]
    assert not proxy.drained() and not proxy_state(proxy.control)["sides"]


def test_sides_are_set_before_anything_else_and_ended(shared: Front) -> None:
    proxy = shared.only(2)
    request = asked(proxy, sides=["server-0"], undrain=["server-0"])
    assert done(request) == ["keep server-0 apart from the others"]
    assert proxy_state(proxy.control)["sides"] == ["server-0"]
    assert done(asked(proxy)) == []
    assert proxy_state(proxy.control)["sides"] == ["server-0"], "null leaves them"
    assert done(asked(proxy, sides=[])) == ["pair all instances again"]


def test_without_a_proxy_there_is_nothing_to_drain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    systemd_says(monkeypatch, tmp_path, ActiveState="inactive", SubState="dead")
    request = {"cluster": "chat", "control": str(tmp_path / "none.sock"), "drain": ["server-0"]}
    request |= {"lease_s": 1, "timeout_s": 1}
    did: list[str] = []
    assert drain(request, False, did) is False
    assert did == [f"nothing to drain: no proxy listens on {tmp_path}/none.sock: No such file or directory"]


def test_a_socket_that_a_killed_proxy_left_is_no_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    systemd_says(monkeypatch, tmp_path, ActiveState="inactive", SubState="dead")
    with front(tmp_path) as proxy:
        proxy.kill()
        assert Path(proxy.control).exists()
        assert done(asked(proxy, drain=["server-0"]))[0].startswith("nothing to drain")
        proxy.start()


def test_instances_that_the_proxy_does_not_have_are_left_out(shared: Front) -> None:
    proxy = shared.only(2)
    request = asked(proxy, drain=["server-0", "server-7"], undrain=["server-8"], sides=["server-9"])
    assert done(request) == ["drain server-0"]


def test_a_list_read_again_brings_instances_that_can_be_drained(shared: Front) -> None:
    proxy = shared.only(3)
    proxy.write(["server-0", "server-1"])
    assert done(asked(proxy, reload=True))[0] == "have the proxy read its list of instances again"
    assert list(proxy.members()) == ["server-0", "server-1"]
    proxy.write(["server-0", "server-2"])
    assert done(asked(proxy, reload=True, drain=["server-2", "server-1"]))[1:] == ["drain server-2"]
    assert proxy.members()["server-2"]["up"]


def test_a_list_that_needs_a_restart_is_left_for_it_and_a_bad_one_is_a_problem(shared: Front) -> None:
    proxy = shared.only(2)
    proxy.write(["server-0"], model="other")
    did = done(asked(proxy, reload=True, drain=["server-1"]))
    assert "a change of model needs a restart" in did[0] and did[1] == "drain server-1"
    proxy.write([])
    with pytest.raises(Problem, match="needs at least one"):
        done(asked(proxy, reload=True))


def test_a_proxy_that_was_restarted_meanwhile_is_told_again(tmp_path: Path) -> None:
    with front(tmp_path) as proxy:
        waiting = threading.Thread(
            target=lambda: done(asked(proxy, drain=["server-0"], sides=["server-0"], lease_s=0.8))
        )
        waiting.start()
        until(lambda: proxy.drained() == ["server-0"])
        proxy.kill()
        proxy.start()
        until(lambda: proxy.drained() == ["server-0"])
        assert proxy_state(proxy.control)["sides"] == ["server-0"]
        waiting.join()


def test_nothing_more_is_drained_when_the_proxy_cannot_reach_those_that_are_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdctl_drain, "PATIENCE_S", 0.3)
    with front(tmp_path) as proxy:
        done(asked(proxy, drain=["server-0"]))
        proxy.engines["server-0"].shutdown()
        proxy.engines["server-0"].server_close()
        with pytest.raises(Problem, match=r"has not reached server-0 for 0\.3 s; nothing more was drained"):
            done(asked(proxy, undrain=["server-0"], drain=["server-1"]))
        assert proxy.drained() == []


def test_what_the_proxy_refuses_is_passed_on(shared: Front) -> None:
    proxy = shared.only(2)
    with pytest.raises(ControlError) as error:
        ask_proxy(proxy.control, "POST", "/drain", {"instances": ["server-7"]})
    assert error.value.status == 404 and "no instance named server-7" in str(error.value)


@needs_root
def test_what_is_left_drained_is_in_the_record_also_when_the_wait_is_cut_off(
    shared: Front, tmp_path: Path
) -> None:
    """The next plan must not call it drift."""
    proxy = shared.only(2)
    name = "unit:pdctl-chat-proxy.service"
    record = Record(str(tmp_path / "chat" / "record.json"), "chat")
    record.rows[name] = {
        "kind": "unit",
        "name": name[5:],
        "control": proxy.control,
        "drained": [],
        "sides": [],
    }
    (tmp_path / "chat").mkdir()
    record.write()
    proxy.engines["server-0"].gate.clear()
    proxy.ask()
    until(lambda: sum(member["in_flight"] for member in proxy.members().values()) == 1)
    (busy,) = [each for each, member in proxy.members().items() if member["in_flight"]]
    request = asked(proxy, drain=[busy], record=record.path)
    waiting = threading.Thread(target=done, args=(request,))
    waiting.start()
    until(lambda: Record(record.path, "chat").rows[name]["drained"] == [busy])
    assert waiting.is_alive()
    for engine in proxy.engines.values():
        engine.gate.set()
    waiting.join()
    done(asked(proxy, undrain=[busy], record=record.path))
    assert Record(record.path, "chat").rows[name]["drained"] == []


def test_the_last_that_serves_is_not_drained_where_a_plan_counts_on_others(
    shared: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = shared.only(2)
    monkeypatch.setattr(pdctl_drain, "PATIENCE_S", 0.2)
    ask_proxy(proxy.control, "POST", "/drain", {"instances": ["server-0"]})
    with pytest.raises(Problem) as error:
        done(asked(proxy, drain=["server-1"], others=True))
    assert str(error.value).startswith(
        "nothing was drained: server-0 takes no requests, so without server-1 no server would serve."
    )
    assert proxy.drained() == ["server-0"]
    assert done(asked(proxy, undrain=["server-0"], drain=["server-1"], others=True))[-1] == "drain server-1"
