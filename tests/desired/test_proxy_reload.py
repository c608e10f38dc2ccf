"""Which part of proxy.json restarts the proxy, and which it takes up while it runs."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from pdctl.desired import desire
from pdctl.desired.proxy import RELOADABLE
from pdctl.proxy.config import RELOADABLE as TAKEN_UP
from pdctl.proxy.config import Config, parse
from pdctl.state import File, Unit
from pdctl.topology import resolve
from tests.topology.specs import cluster, hosts, serving


def proxy_of(**changes: Any) -> tuple[Unit, dict[str, Any]]:
    found = desire(resolve(cluster(**{"hosts": hosts(2), **changes})))
    unit = next(r for r in found.values() if isinstance(r, Unit) and r.role == "proxy")
    file = next(r for r in found.values() if isinstance(r, File) and r.path.endswith("/proxy.json"))
    assert unit.loaded == file.digest and file.content is not None
    return unit, json.loads(file.content)


def test_both_sides_mean_the_same_keys() -> None:
    assert set(RELOADABLE) == TAKEN_UP <= {item.name for item in fields(Config)}


def test_one_instance_more_is_another_list_for_the_same_process() -> None:
    one, _ = proxy_of(serving=serving(1, 1, 1))
    two, config = proxy_of(serving=serving(1, 2, 1))
    assert one.revision == two.revision and one.loaded != two.loaded
    assert len(parse(config).decoders) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"id": "openai/gpt-oss-120b", "served_name": "other"}},
        {"serving": serving(1, 1, 1, "nixl")},
        {"serving": {**serving(1, 1, 1), "lmcache": {"chunk_size": 128}}},
        {"stack": "article-2025"},
    ],
)
def test_all_else_is_another_revision(changes: dict[str, Any]) -> None:
    before, _ = proxy_of(serving=serving(1, 1, 1))
    after, _ = proxy_of(**{"serving": serving(1, 1, 1), **changes})
    assert before.revision != after.revision


def test_the_control_socket_is_in_the_folder_that_systemd_makes_for_the_proxy() -> None:
    unit, config = proxy_of()
    found = desire(resolve(cluster()))
    text = next(
        r.content for r in found.values() if isinstance(r, File) and r.path.endswith("chat-proxy.service")
    )
    assert unit.control == config["control"] == "/run/pdctl/chat/proxy/control.sock"
    assert text is not None and b"RuntimeDirectory=pdctl/chat/proxy\n" in text


def test_engines_load_drain_and_keep_nothing() -> None:
    engines = [r for r in desire(resolve(cluster())).values() if isinstance(r, Unit) and r.role != "proxy"]
    assert engines and {(unit.loaded, unit.control, unit.drained) for unit in engines} == {("", "", ())}


def test_the_longest_cluster_name_leaves_room_for_the_socket_s_path() -> None:
    """sockaddr_un has 108 bytes (unix(7)), the final NUL included."""
    unit, _ = proxy_of(cluster="a" * 32)
    assert len(unit.control) < 108
