"""UCX_TLS of both sides: whether KV has a way between hosts, whichever side says what."""

from __future__ import annotations

import pytest

from pdctl.spec.rules.environment import both_sides_have_a_network
from tests.topology.specs import cluster, hosts

GPU = "cuda_copy,cuda_ipc"


def found(ours: str | None, theirs: str | None, count: int = 2) -> list[str]:
    def pool(text: str | None) -> dict[str, object]:
        return {} if text is None else {"env": {"UCX_TLS": text}}

    spec = cluster(hosts=hosts(count), serving={"prefillers": pool(ours), "decoders": pool(theirs)})
    return [str(each.path[1]) for each in both_sides_have_a_network(spec)]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (f"rc,{GPU}", f"tcp,{GPU}"),
        (f"ud_mlx5,{GPU}", f"rc_mlx5,{GPU}"),
        ("^tcp", f"tcp,{GPU}"),
        ("^rc,ud,dc", f"rc,{GPU}"),
        ("^ib", f"dc_x,{GPU}"),
    ],
)
def test_two_lists_must_share_a_network(ours: str, theirs: str) -> None:
    assert found(ours, theirs) == found(theirs, ours) == ["decoders"]
    assert found(ours, theirs, count=1) == []


@pytest.mark.parametrize("text", [GPU, "sm,self", "^tcp,ib", "^all", "shm"])
def test_a_list_on_one_side_only_must_have_one(text: str) -> None:
    assert found(text, None) == ["prefillers"]
    assert found(None, text) == ["decoders"]
    assert found(text, text) == ["prefillers", "decoders"]
    assert found(text, text, count=1) == []


@pytest.mark.parametrize(("devices", "told"), [("lo", 1), ("lo:1,lo", 1), ("eth0", 0), ("lo,eth0", 0)])
def test_a_side_that_keeps_to_its_own_host_is_told(devices: str, told: int) -> None:
    env = {"UCX_NET_DEVICES": devices}
    spec = cluster(hosts=hosts(2), serving={"prefillers": {}, "decoders": {"env": env}})
    assert len(list(both_sides_have_a_network(spec))) == told
    spec = cluster(hosts=hosts(1), serving={"prefillers": {}, "decoders": {"env": env}})
    assert not list(both_sides_have_a_network(spec))


@pytest.mark.parametrize("text", ["all", "tcp", "^tcp", "^rc_x", "^ib", "rc:aux,cuda", f"ib,{GPU}", ""])
def test_a_list_that_has_one_goes_with_a_side_without_a_list(text: str) -> None:
    assert found(text, None) == found(None, text) == found(text, text) == []
