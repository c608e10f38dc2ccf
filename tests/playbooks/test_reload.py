"""What a running proxy loads, drains and keeps apart: seen, compared, and put right without a restart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_observe_units
from ansible.module_utils.pdctl_control import ask_proxy, proxy_state
from ansible.module_utils.pdctl_difference import Problem, difference
from ansible.module_utils.pdctl_observe_units import observe_control
from ansible.module_utils.pdctl_reload import take_up
from ansible.module_utils.pdctl_units import needs_restart, unit_headline

from pdctl.state.digest import content_digest
from tests.playbooks.front import Front, front, hurry

NAME = "pdctl-chat-proxy.service"


def wanted(proxy: Front, **more: Any) -> dict[str, Any]:
    return {
        "kind": "unit",
        "name": NAME,
        "enabled": True,
        "active": "active",
        "revision": "r1",
        "deviations": [],
        "loaded": content_digest(proxy.file.read_bytes()),
        "drained": [],
        "sides": [],
        "control": proxy.control,
        **more,
    }


def seen(proxy: Front, want: dict[str, Any]) -> dict[str, Any]:
    return {**want, **observe_control(proxy.control), "invocation": "i1"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """One proxy for all that leave it alive."""
    with front(tmp_path_factory.mktemp("front"), 3) as proxy:
        yield proxy


def test_a_proxy_as_wanted_shows_no_difference(shared: Front) -> None:
    proxy = shared.only(2)
    want = wanted(proxy)
    assert not difference(want, seen(proxy, want))


def test_another_list_is_taken_up_and_what_is_drained_or_apart_comes_back(shared: Front) -> None:
    proxy = shared.only(3)
    ask_proxy(proxy.control, "POST", "/drain", {"instances": ["server-1", "server-2"]})
    ask_proxy(proxy.control, "POST", "/sides", {"new": ["server-0"]})
    proxy.write(["server-0", "server-1"])
    want = wanted(proxy)
    have = seen(proxy, want)
    assert difference(want, have) == [
        "works with another list of instances",
        "server-1 is drained; server-2 is drained",
        "server-0 is kept apart",
    ]
    assert not needs_restart(want, have)
    assert unit_headline(want, have) == (
        f"reload {NAME}: takes up the new list of instances without a restart; "
        "undrain server-1, server-2; pair all instances again"
    )
    assert take_up(want)
    assert not difference(want, seen(proxy, want))
    assert list(proxy.members()) == ["server-0", "server-1"] and not proxy_state(proxy.control)["sides"]


def test_what_shall_stay_drained_stays(shared: Front) -> None:
    proxy = shared.only(2)
    ask_proxy(proxy.control, "POST", "/drain", {"instances": ["server-0", "server-1"]})
    want = wanted(proxy, drained=["server-1"])
    assert unit_headline(want, seen(proxy, want)) == "undrain server-0"
    assert take_up(want) and proxy.drained() == ["server-1"]


def test_a_file_that_needs_a_restart_asks_for_one_and_a_bad_one_is_a_problem(shared: Front) -> None:
    proxy = shared.only(2)
    proxy.write(["server-0"], model="other")
    assert not take_up(wanted(proxy))
    proxy.file.write_text("{")
    with pytest.raises(Problem, match=f"{NAME}: .*not JSON"):
        take_up(wanted(proxy))


def test_a_proxy_that_nobody_can_reach_is_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    with front(tmp_path) as proxy:
        want = wanted(proxy)
        Path(proxy.control).unlink()
        have = seen(proxy, want)
        assert needs_restart(want, have)
        assert unit_headline(want, have) == f"restart {NAME}: its control socket does not answer"


def test_a_unit_without_a_control_socket_is_asked_nothing() -> None:
    assert observe_control("") == {"loaded": "", "drained": [], "sides": []}


def test_a_proxy_that_is_just_starting_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdctl_observe_units, "START_S", 20.0)  # a busy machine must not fail the test
    with front(tmp_path) as proxy:
        digest = content_digest(proxy.file.read_bytes())
        proxy.kill()
        starting = threading.Thread(target=proxy.start)
        starting.start()
        assert observe_control(proxy.control)["loaded"] == digest
        starting.join()
