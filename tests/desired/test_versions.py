"""What differs between versions: keys, flags and variables that one knows and another refuses or ignores."""

from __future__ import annotations

from typing import Any

import pytest

from tests.desired.rendered import Engine, Rendered, rendered
from tests.topology.specs import hosts, serving

OLD, NEW = "0.3.10", "0.5.6"
# Keys of LMCache's config.py at 0.3.10 that PD may use; later ones only warn there and do nothing.
KNOWN_TO_OLD = {
    "enable_pd", "pd_role", "transfer_channel", "nixl_backends", "pd_peer_host", "pd_peer_init_port",
    "pd_peer_alloc_port", "pd_proxy_host", "pd_proxy_port", "pd_buffer_size", "pd_buffer_device",
    "chunk_size",
    "local_cpu", "max_local_cpu_size", "max_local_disk_size", "save_decode_cache", "save_unfull_chunk",
    "enable_async_loading", "use_layerwise", "pre_caching_hash_algorithm", "lookup_timeout_ms",
    "internal_api_server_enabled", "internal_api_server_host", "internal_api_server_port_start",
    "lmcache_instance_id", "extra_config",
}  # fmt: skip
# The asynchronous backend's, from 0.4.5 on.
ASYNC = {
    "pd_backend_mode", "pd_max_prefill_len", "pd_allocation_timeout_sec", "pd_shutdown_timeout_sec",
    "pd_condition_poll_interval_sec",
}  # fmt: skip
# Names that README files still show and that every version ignores with only a warning.
DEAD = {
    "enable_xpyd", "enable_nixl", "nixl_role", "nixl_peer_host", "nixl_peer_init_port",
    "nixl_peer_alloc_port",
    "nixl_proxy_host", "nixl_proxy_port", "nixl_buffer_size", "nixl_buffer_device", "nixl_receiver_host",
    "nixl_peer_port", "nixl_enable_gc",
}  # fmt: skip
# What must stay off with PD: an assertion in 0.3.10, or short prompts that never notify.
OFF = {"save_decode_cache", "enable_async_loading", "use_layerwise", "enable_p2p", "remote_url", "local_cpu"}


def lmcache(version: str, **changes: Any) -> Rendered:
    return rendered(stack={"lmcache": version}, **changes)


@pytest.mark.parametrize("version", [OLD, "0.4.2", "0.4.5", NEW])
@pytest.mark.parametrize("role", ["prefiller", "decoder"])
def test_only_keys_that_the_version_knows_are_written(version: str, role: str) -> None:
    newer = version in ("0.4.5", NEW)
    for engine in lmcache(version).role(role):
        assert engine.lmcache.keys() <= KNOWN_TO_OLD | (ASYNC if newer else set())
        assert not engine.lmcache.keys() & DEAD
        assert not any(engine.lmcache.get(key) for key in OFF)
        # Without it, newer versions wait for ever when a decoder's buffer is full.
        assert ("pd_allocation_timeout_sec" in engine.lmcache) == newer
        assert 0 < engine.lmcache.get("pd_allocation_timeout_sec", 30) < 120


@pytest.mark.parametrize("version", [OLD, NEW])
def test_each_side_gets_its_own_keys_and_none_of_the_others(version: str) -> None:
    found = lmcache(version)
    [prefiller], [decoder] = found.role("prefiller"), found.role("decoder")
    assert {"pd_proxy_host", "pd_proxy_port"} <= prefiller.lmcache.keys()
    assert not [key for key in prefiller.lmcache if key.startswith("pd_peer_")]
    assert {"pd_peer_host", "pd_peer_init_port", "pd_peer_alloc_port"} <= decoder.lmcache.keys()
    assert not [key for key in decoder.lmcache if key.startswith("pd_proxy_")]
    assert (prefiller.lmcache["pd_role"], decoder.lmcache["pd_role"]) == ("sender", "receiver")


@pytest.mark.parametrize(("version", "off_on_prefiller"), [(OLD, True), ("0.4.5", True), (NEW, False)])
def test_prefix_caching_is_off_where_it_is_unproven(version: str, off_on_prefiller: bool) -> None:
    found = lmcache(version)
    [prefiller], [decoder] = found.role("prefiller"), found.role("decoder")
    assert ("--no-enable-prefix-caching" in prefiller.argv) == off_on_prefiller
    assert "--no-enable-prefix-caching" in decoder.argv


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize("connector", ["lmcache", "nixl"])
def test_prompts_are_never_split_on_prefillers_of_several_ranks(connector: str, tp: int) -> None:
    """With TP > 1 LMCache forgets how much of a prompt it has sent (LMCache 4076)."""
    found = rendered(hosts=hosts(2), serving=serving(1, 1, tp, connector))
    [prefiller], [decoder] = found.role("prefiller"), found.role("decoder")
    if connector == "lmcache" and tp > 1:
        assert prefiller.flag("max-num-seqs") == "1"
        assert budget(prefiller) >= int(prefiller.flag("max-model-len") or 0) > 0
    else:
        assert prefiller.flag("max-num-seqs") is prefiller.flag("max-num-batched-tokens") is None
    assert decoder.flag("max-num-seqs") is decoder.flag("max-num-batched-tokens") is None


@pytest.mark.parametrize(("asked", "given"), [(4096, 131072), (200000, 200000)])
def test_a_budget_below_the_longest_prompt_is_raised_and_a_larger_one_kept(asked: int, given: int) -> None:
    pools = serving(1, 1, 2)
    pools["prefillers"] |= {"max_num_batched_tokens": asked}
    [prefiller] = rendered(serving=pools).role("prefiller")
    assert budget(prefiller) == given


def budget(engine: Engine) -> int:
    return int(engine.flag("max-num-batched-tokens") or 0)


# NixlConnector, as vLLM 0.11.0's and 0.32.0's own trees have it: role of each side, what the connector is
# told beside it, the variable that ends a lease, and how many ports an instance of 4 ranks listens on.
NIXL = {
    "0.11.0": (("kv_both", "kv_both"), {}, "120", 4),
    "0.32.0": (
        ("kv_producer", "kv_consumer"),
        {"kv_load_failure_policy": "fail", "kv_connector_extra_config": {"kv_lease_duration": 30}},
        None,
        1,
    ),
}


@pytest.mark.parametrize(("version", "facts"), NIXL.items(), ids=NIXL)
def test_nixl_is_told_what_its_version_understands(version: str, facts: Any) -> None:
    roles, more, lease, _ = facts
    found = rendered(stack={"vllm": version}, serving=serving(1, 1, 4, "nixl"))
    [prefiller], [decoder] = found.role("prefiller"), found.role("decoder")
    for engine, role in zip((prefiller, decoder), roles, strict=True):
        assert engine.transfer == {"kv_connector": "NixlConnector", "kv_role": role} | more
        assert engine.env.get("VLLM_NIXL_ABORT_REQUEST_TIMEOUT") == lease
        assert engine.env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == engine.flag("host") == "10.0.0.11"
        assert engine.lmcache == {} and "--no-enable-prefix-caching" not in engine.argv


@pytest.mark.parametrize(("version", "facts"), NIXL.items(), ids=NIXL)
def test_side_channels_of_a_host_never_meet(version: str, facts: Any) -> None:
    """vLLM listens on the port of its variable, and 0.11 on one more for each further rank."""
    width = facts[3]
    found = rendered(hosts=hosts(2), stack={"vllm": version}, serving=serving(2, 2, 4, "nixl"))
    for host in {engine.host for engine in found.engines.values()}:
        firsts = [int(e.env["VLLM_NIXL_SIDE_CHANNEL_PORT"]) for e in found.engines.values() if e.host == host]
        ports = [port for first in firsts for port in range(first, first + width)]
        assert len(set(ports)) == len(ports) == 2 * width
    prefillers = [int(e.env["VLLM_NIXL_SIDE_CHANNEL_PORT"]) for e in found.role("prefiller")]
    assert prefillers == [5600, 5600 + width]


def test_two_instances_of_one_host_do_not_share_the_default_port() -> None:
    found = rendered(serving=serving(1, 1, 1, "nixl"))
    assert len({e.env["VLLM_NIXL_SIDE_CHANNEL_PORT"] for e in found.engines.values()}) == 2


@pytest.mark.parametrize("connector", ["lmcache", "nixl"])
def test_ucx_is_told_its_transports_only_where_that_is_known_to_fit(connector: str) -> None:
    """A list without the CUDA transports makes UCX blind to GPU memory; between hosts UCX chooses itself."""
    one = rendered(serving=serving(1, 1, 1, connector))
    two = rendered(hosts=hosts(2, gpus=1), serving=serving(1, 1, 1, connector))
    assert {e.env.get("UCX_TLS") for e in one.engines.values()} == {"cuda_ipc,cuda_copy,tcp"}
    assert {e.env.get("UCX_TLS") for e in two.engines.values()} == {None}
