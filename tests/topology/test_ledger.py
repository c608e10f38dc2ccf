"""Any two sockets that would share a port on a host are found, whoever wants them and wherever it is said."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.spec.finding import Finding
from pdctl.spec.locate import written
from pdctl.topology.resolve import survey
from tests.topology.specs import cluster, hosts

# What each kind of socket is set by, as (field, key): ports of the proxy, pins of an instance.
PROXY = [("proxy", "http"), ("proxy", "metrics"), ("proxy", "notification")]
LMCACHE = [
    ("prefiller-0", "http"), ("prefiller-1", "http"),
    ("decoder-0", "http"), ("decoder-0", "init"), ("decoder-0", "alloc"),
    ("decoder-1", "http"), ("decoder-1", "init"), ("decoder-1", "alloc"),
]  # fmt: skip
NIXL = [(name, kind) for name, _ in LMCACHE for kind in ("http", "side_channel")]
SOCKETS = {"lmcache": [*PROXY, *LMCACHE], "nixl": [*PROXY[:2], *dict.fromkeys(NIXL)]}
PAIRS = [
    (connector, *pair) for connector, all_ in SOCKETS.items() for pair in itertools.combinations(all_, 2)
]
FREE = 15000


def serving(connector: str, pinned: dict[tuple[str, str], int]) -> dict[str, Any]:
    """Two prefillers and two decoders on one host, with the given ports."""
    pools: dict[str, Any] = {}
    for role, field in (("prefiller", "prefillers"), ("decoder", "decoders")):
        pools[field] = {"placement": [place(f"{role}-{i}", pinned) for i in range(2)]}
    front = {kind: port for (owner, kind), port in pinned.items() if owner == "proxy"}
    return {"connector": connector, "proxy": {"ports": front}, **pools}


def place(name: str, pinned: dict[tuple[str, str], int]) -> dict[str, Any]:
    ports = {
        kind: port if kind == "http" else [port] for (owner, kind), port in pinned.items() if owner == name
    }
    return {"host": "gpu01", "ports": ports}


def twice(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.rule == "PORT003"]


@pytest.mark.parametrize(("connector", "one", "other"), PAIRS, ids=lambda value: "-".join(value))
def test_any_two_sockets_pinned_to_one_port_are_named(
    connector: str, one: tuple[str, str], other: tuple[str, str]
) -> None:
    _, findings = survey(cluster(serving=serving(connector, {one: FREE, other: FREE})))
    [found] = twice(findings)
    for name, kind in (one, other):
        assert f"{name} ({kind})" in found.message
    assert f"port {FREE} on gpu01" in found.message
    fields = {field(*one), field(*other)}
    assert written(found.path) in fields and any(name in str(found.hint) for name in fields)


def field(name: str, kind: str) -> str:
    role, _, index = name.partition("-")
    return (
        f"serving.proxy.ports.{kind}"
        if role == "proxy"
        else f"serving.{role}s.placement[{index}].ports.{kind}"
    )


@pytest.mark.parametrize("connector", SOCKETS)
@given(data=st.data())
def test_a_port_pinned_onto_any_that_pdctl_chose_is_found(connector: str, data: st.DataObject) -> None:
    """Also those that nobody can pin: the internal API, and vLLM's own block."""
    topology, findings = survey(cluster(serving=serving(connector, {})))
    assert not twice(findings)
    instance = data.draw(st.sampled_from(topology.instances))
    kind, port = data.draw(st.sampled_from(instance.ports.named()))
    other = data.draw(st.sampled_from([s for s in SOCKETS[connector] if s[0] != instance.name]))
    _, findings = survey(cluster(serving=serving(connector, {other: port})))
    assert any(
        f"{instance.name} ({kind})" in f.message and f"{other[0]} ({other[1]})" in f.message
        for f in twice(findings)
    )


def test_the_same_ports_on_two_hosts_are_fine() -> None:
    spec = {
        "prefillers": {"placement": [{"host": "gpu01", "ports": {"http": FREE}}]},
        "decoders": {"placement": [{"host": "gpu02", "ports": {"http": FREE}}]},
    }
    assert not twice(survey(cluster(hosts=hosts(2), serving=spec))[1])


@pytest.mark.parametrize("base", ["prefiller", "decoder", "init", "alloc", "internal_api", "engine"])
def test_a_base_that_meets_another_is_found(base: str) -> None:
    pools = {"prefillers": {"count": 2}, "decoders": {"count": 2}}
    taken = {"decoder": 7100}.get(base, 7201)
    _, findings = survey(cluster(serving={**pools, "ports": {base: taken}}))
    assert twice(findings)


def test_a_clash_of_many_is_told_once() -> None:
    pools = {"prefillers": {"count": 4}, "decoders": {"count": 4}, "ports": {"prefiller": 7200}}
    [found] = twice(survey(cluster(serving=pools))[1])
    assert "ports 7200, 7201, 7202, 7203 on gpu01" in found.message and "3 more pairs" in found.message


def test_a_port_of_ssh_is_found_only_where_ssh_is_used() -> None:
    def rules(**ssh: Any) -> set[str]:
        return {finding.rule for finding in survey(cluster(ssh=ssh))[1]}

    assert "PORT007" in rules(port=9100)
    assert "PORT007" in rules(port=7200)
    assert "PORT007" not in rules(port=2222)
    assert "PORT007" not in rules(port=9100, connection="local")
    assert "PORT007" not in rules(port=9100, config="ssh_config")


def test_ports_that_arguments_open_are_in_the_ledger() -> None:
    config = '{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557"}'
    words = ["--kv-events-config", config]
    pools = {"prefillers": {"count": 2, "extra_args": words}, "decoders": {"count": 1}}
    [found] = twice(survey(cluster(serving=pools))[1])
    assert "prefiller-0 (KV events)" in found.message and "prefiller-1 (KV events)" in found.message
    assert written(found.path) == "serving.prefillers.extra_args[0]"
