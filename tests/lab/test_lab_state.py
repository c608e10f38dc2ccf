import os
import re
from pathlib import Path
from typing import Any

import pytest

from pdctl.errors import LabError
from pdctl.lab import Lab
from pdctl.lab.paths import default_cache, lab_paths
from pdctl.lab.processes import Process
from pdctl.lab.state import Bind, Host, LabState, Service, parse_bind, read_state, write_state


def test_state_survives_being_written_and_read(tmp_path: Path) -> None:
    state = LabState(
        cache="/c",
        tree="/c/t/1",
        binds=(Bind("/a b", "/opt/x"),),
        disks=("/opt/pdctl",),
        hosts={"h1": Host("h1", 10, Process(7, 99)), "h2": Host("h2", 11)},
        services=(Service("http://198.18.0.1:80/", "/srv", Process(8, 100)),),
    )
    write_state(tmp_path / "state.json", state)
    assert read_state(tmp_path / "state.json") == state
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_lab_that_was_never_made_has_no_hosts(tmp_path: Path) -> None:
    assert read_state(tmp_path / "state.json") == LabState()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"hosts": {"h1": {}}}'])
def test_a_damaged_state_is_an_error_that_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(LabError, match="not the state of a lab") as caught:
        read_state(tmp_path / "state.json")
    assert caught.value.hint == "pdctl lab down, then pdctl lab up"


def test_later_hosts_get_new_addresses_and_move_no_other() -> None:
    first = LabState().with_new_hosts(["a1", "a2"])
    second = first.with_new_hosts(["b1", "a1"])
    assert [host.address for host in first.hosts.values()] == ["198.18.0.10", "198.18.0.11"]
    assert second.hosts == {**first.hosts, "b1": Host("b1", 12)}


def test_the_network_has_room_for_245_hosts() -> None:
    full = LabState().with_new_hosts([f"h{number}" for number in range(245)])
    assert full.hosts["h244"].address == "198.18.0.254"
    with pytest.raises(LabError, match="room for 245 hosts"):
        full.with_new_hosts(["one-more"])


def test_an_unknown_host_is_answered_with_the_known_ones() -> None:
    with pytest.raises(LabError, match="no host `h9`; it has: h1, h2"):
        LabState().with_new_hosts(["h1", "h2"]).host("h9")


def test_a_bind_starts_from_the_current_directory_and_ends_at_the_last_colon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_bind("wheels:/opt/x") == Bind(str(tmp_path / "wheels"), "/opt/x")
    assert parse_bind("/a:b:/opt/x") == Bind("/a:b", "/opt/x")


@pytest.mark.parametrize("text", ["wheels", ":/opt/x", ""])
def test_half_a_bind_is_refused(text: str) -> None:
    with pytest.raises(LabError, match="is not a bind"):
        parse_bind(text)


def test_labs_in_other_directories_have_other_names(tmp_path: Path) -> None:
    assert lab_paths(tmp_path / "a").lab_id != lab_paths(tmp_path / "b").lab_id
    assert lab_paths(tmp_path / "a").lab_id == lab_paths(tmp_path / "b" / ".." / "a").lab_id


@pytest.mark.parametrize("name", ["a:b", "a,b", "a%b", "a'b", 'a"b', "a$b", "a\nb", "a\\b"])
def test_a_directory_that_mount_or_ssh_would_misread_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LabError, match="specially"):
        lab_paths(tmp_path / name)


def test_the_cache_follows_xdg_cache_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "pdctl" / "lab"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "pdctl" / "lab"


@pytest.mark.skipif(os.geteuid() != 0, reason="a lab needs root")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "cannot have 0 hosts"),
        ({"count": 246}, "cannot have 246 hosts"),
        ({"count": 1, "prefix": "Web_"}, "`Web_` cannot begin a host name"),
        ({"count": 1, "binds": [Bind("/not/there", "/opt/x")]}, "cannot show `/not/there`"),
        ({"count": 1, "binds": [Bind("/etc", "opt")]}, "`opt` is not an absolute path"),
        ({"count": 1, "disks": ["/a/../b"]}, "`/a/../b` is not an absolute path"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        Lab(tmp_path / ".pdctl" / "lab", cache=tmp_path / "cache").up(**arguments)
    assert not list(tmp_path.iterdir())
