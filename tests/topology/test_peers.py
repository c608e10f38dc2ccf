"""What hosts must know of each other, and what LMCache cannot do."""

from __future__ import annotations

import pytest

from pdctl.errors import ErrorGroup
from pdctl.topology import resolve
from tests.topology.specs import cluster, hosts, serving


def test_several_hosts_need_ip_addresses_for_their_peers() -> None:
    named = [{"name": "gpu01", "gpus": 8}, {"name": "gpu02", "gpus": 8, "address": "10.0.0.2"}]
    with pytest.raises(ErrorGroup) as caught:
        resolve(cluster(hosts=named))
    [error] = caught.value.errors
    assert error.where == "hosts[0]" and "`gpu01` is a name" in str(error)
    resolve(cluster(hosts=[named[0] | {"private_address": "10.0.0.1"}, named[1]]))


def test_one_host_may_be_called_by_its_name() -> None:
    assert resolve(cluster(hosts=[{"name": "gpu01", "gpus": 8}])).proxy.address == "gpu01"


@pytest.mark.parametrize(
    ("connector", "tp", "refused"), [("lmcache", 2, True), ("lmcache", 1, False), ("nixl", 2, False)]
)
def test_a_prefiller_that_would_split_prompts_is_refused(connector: str, tp: int, refused: bool) -> None:
    asked = serving(1, 1, tp, connector)
    asked["prefillers"]["max_num_seqs"] = 8
    spec = cluster(hosts=hosts(1), serving=asked, stack="cuda13-2026")
    if not refused:
        resolve(spec)
        return
    with pytest.raises(ErrorGroup) as caught:
        resolve(spec)
    assert caught.value.errors[0].where == "serving.prefillers.max_num_seqs"
