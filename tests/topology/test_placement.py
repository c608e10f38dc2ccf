"""Laws of placement and of the port ledger."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pdctl.errors import ErrorGroup
from pdctl.topology import Topology, resolve
from pdctl.topology.model import Instance
from tests.topology.specs import cluster, hosts, serving

layouts = st.tuples(
    st.integers(1, 8),
    st.integers(1, 8),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 50),
    st.sampled_from(["lmcache", "nixl"]),
)


def resolved(prefillers: int, decoders: int, tp: int, count: int, connector: str) -> Topology:
    return resolve(cluster(hosts=hosts(count), serving=serving(prefillers, decoders, tp, connector)))


def fits(prefillers: int, decoders: int, tp: int, count: int) -> bool:
    return (prefillers + decoders) * tp <= count * 8


def where(topology: Topology) -> dict[str, Instance]:
    return {i.name: i for i in topology.instances}


@given(layouts)
def test_no_gpu_and_no_port_is_given_twice_on_a_host(layout: tuple[int, int, int, int, str]) -> None:
    assume(fits(*layout[:4]))
    topology = resolved(*layout)
    gpus = Counter((i.host, gpu) for i in topology.instances for gpu in i.gpus)
    ports = Counter((i.host, port) for i in topology.instances for _, port in i.ports.named())
    proxy = topology.proxy
    ports.update((proxy.host, p) for p in (proxy.http, proxy.metrics, proxy.notification) if p)
    assert set(gpus.values()) == {1} and set(ports.values()) == {1}
    assert all(gpu in range(8) for _, gpu in gpus) and all(0 < port < 32768 for _, port in ports)


@given(layouts)
def test_every_rank_has_its_own_gpu_init_and_alloc_port(layout: tuple[int, int, int, int, str]) -> None:
    assume(fits(*layout[:4]))
    tp = layout[2]
    for item in resolved(*layout).instances:
        assert len(item.gpus) == tp
        expected = tp if item.role == "decoder" and layout[4] == "lmcache" else 0
        assert len(item.ports.init) == len(item.ports.alloc) == expected
        assert bool(item.ports.side_channel) == (layout[4] == "nixl")


@given(layouts, st.sampled_from(["prefillers", "decoders"]))
def test_one_more_instance_moves_no_other(layout: tuple[int, int, int, int, str], grown: str) -> None:
    prefillers, decoders, tp, count, connector = layout
    more = (prefillers + (grown == "prefillers"), decoders + (grown == "decoders"))
    assume(fits(*more, tp, count))
    before = where(resolved(prefillers, decoders, tp, count, connector))
    after = where(resolved(*more, tp, count, connector))
    assert {name: after[name] for name in before} == before


@given(st.integers(2, 8), st.integers(1, 8), st.sampled_from([4, 8]), st.sampled_from(["lmcache", "nixl"]))
def test_what_does_not_fit_is_refused_with_both_sides_named(
    prefillers: int, decoders: int, tp: int, connector: str
) -> None:
    too_few = ((prefillers + decoders) * tp - 1) // 8
    with pytest.raises(ErrorGroup) as caught:
        resolved(prefillers, decoders, tp, too_few, connector)
    text = " ".join(str(e) for e in caught.value.errors)
    assert "GPU" in text and ("claimed by" in text or "needs" in text)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 9))
def test_without_gpus_instances_go_round_the_hosts(prefillers: int, decoders: int, count: int) -> None:
    topology = resolve(
        cluster(hosts=hosts(count, 0), engine="simulator", serving=serving(prefillers, decoders, 1))
    )
    spread = Counter(i.host for i in topology.instances if i.role == "decoder")
    assert max(spread.values()) - (min(spread.values()) if len(spread) == count else 0) <= 1
    if count > 1:
        assert where(topology)["prefiller-0"].host != where(topology)["decoder-0"].host


def test_the_article_gets_its_port_numbers() -> None:
    topology = resolve(cluster(stack="article-2025", serving=serving(1, 1, 2)))
    by_name = where(topology)
    decoder, prefiller, proxy = by_name["decoder-0"], by_name["prefiller-0"], topology.proxy
    assert (proxy.http, proxy.notification) == (9100, 7500)
    assert (prefiller.ports.http, decoder.ports.http) == (7100, 7200)
    assert (decoder.ports.init, decoder.ports.alloc) == ((7300, 7301), (7400, 7401))
    assert (prefiller.gpus, decoder.gpus) == ((0, 1), (6, 7))


def test_a_second_decoder_steps_by_its_tensor_parallel_size() -> None:
    by_name = where(resolve(cluster(serving=serving(1, 2, 2))))
    assert by_name["decoder-1"].ports.init == (7302, 7303)
    assert by_name["decoder-1"].ports.alloc == (7402, 7403)


def test_old_vllm_gets_a_side_channel_per_rank_and_new_one_per_instance() -> None:
    old = resolve(cluster(stack="article-2025", serving=serving(1, 1, 2, "nixl")))
    new = resolve(cluster(stack="cuda13-2026", serving=serving(1, 1, 2, "nixl")))
    assert [len(i.ports.side_channel) for i in old.instances] == [2, 2]
    assert [len(i.ports.side_channel) for i in new.instances] == [1, 1]


def test_a_port_used_twice_names_both_owners() -> None:
    with pytest.raises(ErrorGroup) as caught:
        resolve(cluster(serving=serving(1, 1, 1) | {"ports": {"prefiller": 7300}}))
    assert "port 7300 on gpu01 is used by prefiller-0 (http) and by decoder-0 (init)" in str(
        caught.value.errors[0]
    )


def test_the_same_port_on_two_hosts_is_fine() -> None:
    topology = resolve(cluster(hosts=hosts(2), serving=serving(4, 4, 2, "nixl")))
    assert Counter(i.ports.http for i in topology.instances if i.role == "prefiller")[7100] == 1


def test_a_pinned_list_must_hold_one_port_per_rank() -> None:
    decoders = {"tensor_parallel": 2, "placement": [{"host": "gpu01", "ports": {"init": [7300]}}]}
    with pytest.raises(ErrorGroup) as caught:
        resolve(cluster(serving={"prefillers": {"tensor_parallel": 2}, "decoders": decoders}))
    assert "tensor_parallel 2 needs 2 init ports, got 1" in str(caught.value.errors[0])


@pytest.mark.parametrize(
    ("ports", "problem"),
    [([5600], "needs 2 side_channel ports, got 1"), ([5600, 9999], "opens 2 side channels from 5600 upward")],
)
def test_pinned_side_channels_are_what_old_vllm_opens(ports: list[int], problem: str) -> None:
    prefillers = {"tensor_parallel": 2, "placement": [{"host": "gpu01", "ports": {"side_channel": ports}}]}
    pools = {"connector": "nixl", "prefillers": prefillers, "decoders": {"tensor_parallel": 2}}
    with pytest.raises(ErrorGroup) as caught:
        resolve(cluster(stack="article-2025", serving=pools))
    assert problem in str(caught.value.errors[0])


def test_a_gpu_claimed_by_two_instances_names_both() -> None:
    pools = {
        "prefillers": {"tensor_parallel": 2, "placement": [{"host": "gpu01", "gpus": [0, 1]}]},
        "decoders": {"tensor_parallel": 2, "placement": [{"host": "gpu01", "gpus": [1, 2]}]},
    }
    with pytest.raises(ErrorGroup) as caught:
        resolve(cluster(serving=pools))
    assert "GPU 1 of gpu01 is claimed by prefiller-0 and decoder-0" in str(caught.value.errors[0])
