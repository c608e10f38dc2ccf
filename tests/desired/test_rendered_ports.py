"""Every port that a rendered file names, against the ledger and against every other on its host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pdctl.desired import desire
from pdctl.topology import Topology, resolve
from tests.desired.rendered import Engine, Rendered, read
from tests.topology.specs import cluster, hosts, serving

EPHEMERAL = range(32768, 61000)  # Linux' default net.ipv4.ip_local_port_range
ENGINE_SOCKETS = 64  # what pdctl sets aside for vLLM's own sockets from VLLM_PORT upward


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Topology, Rendered]:
    """1-8 prefillers and 1-8 decoders of 1 to 8 ranks, on as many hosts as they need or more."""
    prefillers, decoders = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    tp = draw(st.sampled_from([1, 2, 4, 8]))
    least = -(-(prefillers + decoders) * tp // 8)
    count = draw(st.integers(least, least + 2))
    connector = draw(st.sampled_from(["lmcache", "nixl"]))
    stack = {"vllm": draw(st.sampled_from(["0.11.0", "0.32.0"]))}
    spec = cluster(hosts=hosts(count), stack=stack, serving=serving(prefillers, decoders, tp, connector))
    topology = resolve(spec)
    return topology, read(desire(topology))


def named(found: Rendered) -> Iterator[tuple[str, str, int]]:
    """(host, purpose, port) of every port in every file."""
    for engine in found.engines.values():
        yield from ((engine.host, f"{engine.name} {what}", port) for what, port in engine_ports(engine))
    for what in ("listen", "metrics", "notification"):
        if what in found.proxy:
            yield found.proxy_host, f"proxy {what}", found.proxy[what]["port"]


def engine_ports(engine: Engine) -> Iterator[tuple[str, int]]:
    yield "--port", engine.port
    yield "VLLM_PORT", int(engine.env["VLLM_PORT"])
    if "VLLM_NIXL_SIDE_CHANNEL_PORT" in engine.env:
        yield "side channel", int(engine.env["VLLM_NIXL_SIDE_CHANNEL_PORT"])
    for key in ("pd_peer_init_port", "pd_peer_alloc_port"):
        yield from ((key, port) for port in engine.lmcache.get(key, ()))
    if engine.lmcache:
        yield "internal API", engine.lmcache["internal_api_server_port_start"]


def listened(found: Rendered, per_rank: bool) -> Iterator[tuple[str, int]]:
    """(host, port) of every socket that opens: those named, and those that follow from them."""
    for host, purpose, port in named(found):
        ranks = (
            int(found.engines[purpose.split()[0]].flag("tensor-parallel-size") or 1) if "-" in purpose else 1
        )
        following = 1
        if purpose.endswith("VLLM_PORT"):
            following = ENGINE_SOCKETS
        elif purpose.endswith("internal API"):
            following = 1 + ranks  # the scheduler's, then one per rank
        elif purpose.endswith("side channel") and per_rank:
            following = ranks
        yield from ((host, port + i) for i in range(following))


@settings(max_examples=40)
@given(clusters())
def test_every_rendered_port_is_in_the_ledger_of_its_host(made: tuple[Topology, Rendered]) -> None:
    topology, found = made
    ledger = {(i.host, port) for i in topology.instances for _, port in i.ports.named()}
    front = topology.proxy
    ledger |= {(front.host, port) for port in (front.http, front.metrics, front.notification) if port}
    rows = list(named(found))
    assert {(host, port) for host, _, port in rows} <= ledger
    assert len({port for _, purpose, port in rows if "pd_peer" in purpose}) % 2 == 0


@settings(max_examples=40)
@given(clusters())
def test_no_two_sockets_of_a_host_want_the_same_port(made: tuple[Topology, Rendered]) -> None:
    topology, found = made
    sockets = Counter(listened(found, per_rank=topology.pins["vllm"] == "0.11.0"))
    assert [socket for socket, times in sockets.items() if times > 1] == []
    assert not [port for _, port in sockets if port in EPHEMERAL or not 1024 <= port < 65536]


@settings(max_examples=40)
@given(clusters())
def test_the_ports_that_clients_use_are_unique_on_each_host(made: tuple[Topology, Rendered]) -> None:
    _, found = made
    front = [(engine.host, engine.port) for engine in found.engines.values()]
    assert len(set(front)) == len(front) and (found.proxy_host, 9100) not in front
    urls = [row["url"] for row in (*found.proxy["prefillers"], *found.proxy["decoders"])]
    assert len(set(urls)) == len(urls) == len(front)


@settings(max_examples=20)
@given(clusters(), st.data())
def test_one_more_instance_changes_no_file_of_the_others(
    made: tuple[Topology, Rendered], data: st.DataObject
) -> None:
    """Only the proxy, which must know the new one, reads something else."""
    topology, found = made
    role = data.draw(st.sampled_from(["prefillers", "decoders"]))
    spec = topology.spec.model_dump(exclude_none=True)
    assume(spec["serving"][role]["count"] < 8)
    spec["serving"][role]["count"] += 1
    free = len(topology.hosts) * 8 - sum(len(i.gpus) for i in topology.instances)
    assume(free >= topology.instances[0].tensor_parallel)
    before = found.texts()
    after = read(desire(resolve(type(topology.spec).model_validate(spec)))).texts()
    changed = {key.id for key in before if before[key] != after.get(key)}
    assert all("proxy" in key for key in changed)
