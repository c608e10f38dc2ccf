"""Prefillers, decoders and the proxy must say the same: seeds, hashes, chunks, ports, the decode leg."""

from __future__ import annotations

from typing import Any

import pytest

from tests.desired.rendered import Engine, Rendered, example, rendered
from tests.topology.specs import hosts, serving

PD = ["hgx-h100-article", "lab", "lab-simulator", "two-hosts-xpyd"]


def pd(found: Rendered) -> list[Engine]:
    return [*found.role("prefiller"), *found.role("decoder")]


@pytest.mark.parametrize("name", PD)
def test_the_hash_seed_is_one_and_fixed(name: str) -> None:
    """Keys hashed with another seed: no hits, and chunks that nobody fetches."""
    assert {engine.env["PYTHONHASHSEED"] for engine in pd(example(name))} == {"0"}


def test_the_users_seed_is_everyones() -> None:
    found = rendered(serving=serving(2, 2, 1) | {"lmcache": {"hash_seed": "42"}})
    assert [engine.env["PYTHONHASHSEED"] for engine in pd(found)] == ["42"] * 4


@pytest.mark.parametrize(
    ("python", "algorithm"),
    [("3.10", "sha256_cbor"), ("3.11", "sha256_cbor"), ("3.12", None), ("3.13", None)],
)
def test_before_python_3_12_both_sides_take_a_hash_that_is_always_the_same(
    python: str, algorithm: str | None
) -> None:
    """hash(None) depended on the memory layout until then, and keys contain None."""
    found = rendered(stack={"python": python})
    assert [engine.lmcache.get("pre_caching_hash_algorithm") for engine in pd(found)] == [algorithm] * 2


@pytest.mark.parametrize("name", ["hgx-h100-article", "lab", "lab-simulator"])
@pytest.mark.parametrize(
    "key",
    ["enable_pd", "transfer_channel", "pd_buffer_size", "pd_buffer_device", "nixl_backends", "chunk_size",
     "save_unfull_chunk", "save_decode_cache", "local_cpu", "pre_caching_hash_algorithm"],
)  # fmt: skip
def test_what_lmcache_wants_equal_is_equal(name: str, key: str) -> None:
    assert len({str(engine.lmcache.get(key)) for engine in pd(example(name))}) == 1


@pytest.mark.parametrize("name", PD)
@pytest.mark.parametrize(
    "flag", ["served-model-name", "tensor-parallel-size", "max-model-len", "dtype", "block-size"]
)
def test_what_vllm_wants_equal_is_equal(name: str, flag: str) -> None:
    engines = pd(example(name))
    assert len({engine.flag(flag) for engine in engines}) == 1
    assert len({engine.argv[4] for engine in engines}) == 1  # the model's name is in the cache keys


@pytest.mark.parametrize("name", PD)
def test_decoders_of_lmcache_keep_no_prefixes(name: str) -> None:
    found = example(name)
    lmcache = found.proxy["connector"] == "lmcache"
    for engine in found.role("decoder"):
        assert ("--no-enable-prefix-caching" in engine.argv) == lmcache


@pytest.mark.parametrize("lmcache", ["0.3.10", "0.4.2", "0.4.5", "0.5.4", "0.5.6"])
def test_the_decoder_skips_a_token_only_when_the_proxy_appends_one(lmcache: str) -> None:
    found = rendered(stack={"lmcache": lmcache})
    [prefiller], [decoder] = found.role("prefiller"), found.role("decoder")
    skipped = extra(decoder).get("skip_last_n_tokens", 0)
    appended = {"append-first-token": 1, "original": 0}[found.proxy["decode_leg"]]
    assert skipped == appended
    assert "skip_last_n_tokens" not in extra(prefiller)
    assert extra(prefiller)["discard_partial_chunks"] is extra(decoder)["discard_partial_chunks"] is False


def extra(engine: Engine) -> dict[str, Any]:
    found: dict[str, Any] = (engine.transfer or {})["kv_connector_extra_config"]
    return found


@pytest.mark.parametrize(
    ("prefillers", "decoders", "tp"), [(1, 2, 2), (2, 2, 2), (2, 1, 4), (3, 5, 1), (1, 1, 8)]
)
def test_the_proxy_knows_each_decoder_by_its_own_ports(prefillers: int, decoders: int, tp: int) -> None:
    """One explicit list a decoder: a shared list left others waiting for ranks that never answer."""
    found = rendered(hosts=hosts(2), serving=serving(prefillers, decoders, tp))
    for row in found.proxy["decoders"]:
        engine = found.engines[row["name"]]
        assert row["init_ports"] == engine.lmcache["pd_peer_init_port"]
        assert row["alloc_ports"] == engine.lmcache["pd_peer_alloc_port"]
        assert len(row["init_ports"]) == len(row["alloc_ports"]) == tp
        assert row["host"] == engine.lmcache["pd_peer_host"] == engine.flag("host")
        assert row["url"] == f"http://{engine.flag('host')}:{engine.port}"
        assert row["slots"] * chunk(tp) == engine.lmcache["pd_buffer_size"]
    for row in found.proxy["prefillers"]:
        engine = found.engines[row["name"]]
        assert row["url"] == f"http://{engine.flag('host')}:{engine.port}"
        notice = found.proxy["notification"]
        assert (engine.lmcache["pd_proxy_host"], engine.lmcache["pd_proxy_port"]) == tuple(notice.values())
    assert found.proxy["listen"]["host"] == found.proxy["notification"]["host"]


def chunk(tp: int) -> int:
    """Bytes of 256 tokens of gpt-oss-120b on one of `tp` ranks."""
    return 36 * 2 * 256 * (8 // tp) * 64 * 2


def test_two_decoders_of_one_host_have_stride_tp() -> None:
    found = rendered(hosts=hosts(2), serving=serving(1, 2, 2))
    lists = [(row["init_ports"], row["alloc_ports"]) for row in found.proxy["decoders"]]
    assert lists == [([7300, 7301], [7400, 7401]), ([7302, 7303], [7402, 7403])]


def test_every_prefillers_file_is_the_same_but_for_its_own_names() -> None:
    found = rendered(serving=serving(3, 1, 1))
    own = {"lmcache_instance_id", "internal_api_server_port_start"}
    files = [{k: v for k, v in e.lmcache.items() if k not in own} for e in found.role("prefiller")]
    assert len(files) == 3 and files[0] == files[1] == files[2]
