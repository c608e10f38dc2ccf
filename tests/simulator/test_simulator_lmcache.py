"""KV goes from a prefiller to a decoder as LMCache's PD mode moves it, and fails as it fails."""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException

import pytest

from tests.simulator.simulated import CHUNK, Farm, Instance, Pair, free_ports, pair_in, until

Start = Callable[..., Pair]

HITS = "vllm:external_prefix_cache_hits_total"
COMPUTED = 'vllm:prompt_tokens_by_source_total{source="local_compute"}'
SLOTS = "lmcache:active_memory_objs_count"


def prompt(tokens: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(3, 60_000), k=tokens)


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair_in(tmp_path_factory.mktemp("one")) as pd:
        yield pd


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    flags = ("--max-num-batched-tokens", "64", "--max-num-seqs", "1")
    with pair_in(tmp_path_factory.mktemp("two"), ranks=2, prefiller_flags=flags) as pd:
        yield pd


@pytest.mark.parametrize("ranks", ["one_rank", "two_ranks"])
def test_the_decoder_takes_the_prompt_over_and_writes_what_an_aggregated_server_writes(
    request: pytest.FixtureRequest, aggregated: Instance, ranks: str
) -> None:
    pd: Pair = request.getfixturevalue(ranks)
    for number, tokens in enumerate((3, CHUNK, 5 * CHUNK + 3)):
        ids = prompt(tokens, number)
        assert pd.generate(ids, 12) == aggregated.text(ids, 12)
    sent = 3 + CHUNK + 5 * CHUNK + 3
    assert pd.decoder.metric(HITS) == sent - 3  # the last token of each prompt is computed again
    assert pd.decoder.metric(COMPUTED) == 3
    assert pd.decoder.metric(SLOTS) == 0
    assert pd.prefiller.metric("lmcache:num_stored_tokens_total") == sent
    assert "LMCache hit tokens: 43, need to load: 42" in pd.decoder.log.read_text()


def test_the_first_token_appended_to_the_prompt_continues_the_text_with_lmcache_0_3_10(
    pair: Start, aggregated: Instance
) -> None:
    versions = {"lmcache_version": "0.3.10", "vllm_version": "0.11.0"}
    pd = pair(extra={"skip_last_n_tokens": 1}, parameters=versions)
    ids = prompt(20)
    first = pd.prefill(ids)
    assert len(pd.notifications(1)) == 1
    token = first["kv_transfer_params"]["first_tok"]
    text = first["choices"][0]["text"] + pd.decoder.text([*ids, token], 7)
    assert text == aggregated.text(ids, 8)
    assert HITS not in pd.decoder.call("GET", "/metrics")[1]  # vLLM 0.11.0 has no such counter
    said = pd.decoder.log.read_text()
    assert "Total tokens 21, LMCache hit tokens: 20, need to load: 20" in said
    assert "Retrieved 20 out of 20 required tokens" in said
    assert pd.decoder.metric(SLOTS) == 0


def test_without_skip_last_n_tokens_the_appended_token_costs_the_last_chunk_and_its_slot(pair: Start) -> None:
    pd = pair(parameters={"lmcache_version": "0.3.10"})
    ids = prompt(20)
    token = pd.prefill(ids)["kv_transfer_params"]["first_tok"]
    pd.notifications(1)
    pd.decoder.text([*ids, token], 7)
    assert pd.decoder.metric(HITS) == 2 * CHUNK
    assert pd.decoder.metric(SLOTS) == 1


def test_without_a_hash_seed_the_decoder_computes_the_prompt_itself_and_the_kv_stays(
    pair: Start, aggregated: Instance
) -> None:
    pd = pair(seeds=("", ""))
    ids = prompt(20)
    assert pd.generate(ids) == aggregated.text(ids)
    assert pd.decoder.metric(HITS) == 0
    assert pd.decoder.metric(COMPUTED) == 20
    assert pd.decoder.metric(SLOTS) == 3


def test_kv_that_is_never_fetched_fills_the_buffer_until_the_sender_is_turned_away(pair: Start) -> None:
    pd = pair(slots=4, receiver={"pd_allocation_timeout_sec": 0.2})
    pd.prefill(prompt(3 * CHUNK, 1), "kept")
    assert len(pd.notifications(1)) == 1
    assert pd.decoder.metric("lmcache:local_cache_usage") == 3 * CHUNK * 64
    pd.prefill(prompt(2 * CHUNK, 2), "refused")
    assert pd.notifications(1, seconds=0.4) == []
    assert "KV was not sent, the proxy gets no notification" in pd.prefiller.log.read_text()
    assert pd.decoder.metric(SLOTS) == 3


def test_a_full_buffer_holds_a_transfer_up_until_a_decode_frees_it(pair: Start) -> None:
    pd = pair(slots=4)
    first, second = prompt(3 * CHUNK, 1), prompt(2 * CHUNK, 2)
    pd.prefill(first, "first")
    pd.prefill(second, "second")
    assert [message["req_id"] for message in pd.notifications(2, seconds=0.3)] == ["first"]
    pd.decoder.text(first)
    assert [message["req_id"] for message in pd.notifications(1)] == ["second"]


def test_corrupted_kv_changes_the_text_and_no_counter(two_ranks: Pair, aggregated: Instance) -> None:
    pd, ids = two_ranks, prompt(20)
    for side in (pd.prefiller, pd.decoder):
        side.fault(corrupt_kv=True)
        hits = pd.decoder.metric(HITS)
        assert pd.generate(ids) != aggregated.text(ids)
        assert pd.decoder.metric(HITS) == hits + 19
        side.fault(corrupt_kv=False)
    assert pd.generate(ids) == aggregated.text(ids)


def test_a_decoder_that_refuses_kv_makes_the_prefiller_silent(one_rank: Pair) -> None:
    one_rank.decoder.fault(refuse_kv=True)
    one_rank.prefiller.complete("a request without disagg_spec is served and sends nothing", 1)
    one_rank.prefill(prompt(20))
    assert one_rank.notifications(1, seconds=0.3) == []
    one_rank.decoder.fault(refuse_kv=False)


def test_a_decoder_that_is_not_there_leaves_one_transfer_waiting_and_no_other(one_rank: Pair) -> None:
    init, one_rank.init = one_rank.init, free_ports(1)
    one_rank.prefill(prompt(20), "to nobody")
    one_rank.init = init
    assert one_rank.notifications(1, seconds=0.3) == []
    one_rank.generate(prompt(20), request_id="to the decoder")


def test_after_a_decoder_restart_the_next_prompt_is_moved_as_before(pair: Start) -> None:
    pd = pair()
    pd.generate(prompt(20))
    pd.decoder.stop()
    pd.decoder = pd.spawn_decoder()
    until(pd.decoder.ready)
    pd.generate(prompt(20, 1))


def test_with_stale_peers_the_prefiller_must_be_restarted_after_its_decoder(pair: Start) -> None:
    pd = pair(parameters={"stale_peers": True})
    pd.generate(prompt(20))
    pd.decoder.stop()
    pd.decoder = pd.spawn_decoder()
    until(pd.decoder.ready)
    pd.prefill(prompt(20, 1))
    assert pd.notifications(1, seconds=0.3) == []
    assert "the receiver was restarted" in pd.prefiller.log.read_text()
    assert pd.decoder.metric(SLOTS) == 0
    pd.prefiller.stop()
    pd.prefiller = pd.spawn_prefiller()
    until(pd.prefiller.ready)
    pd.generate(prompt(20, 2))


def test_an_old_prefiller_serves_its_internal_api_and_dies_of_a_plain_request(farm: Farm) -> None:
    given = {"enable_pd": "true", "pd_role": "sender", "transfer_channel": "nixl", "pd_buffer_device": "cuda"}
    given |= {"pd_buffer_size": str(64 * CHUNK), "chunk_size": str(CHUNK)}
    given |= {"pd_proxy_host": "127.0.0.1", "pd_proxy_port": str(free_ports(1)[0])}
    internal = free_ports(2)
    given |= {"internal_api_server_enabled": "true", "internal_api_server_port_start": str(internal[0])}
    env = {f"LMCACHE_{key.upper()}": value for key, value in given.items()}
    transfer = json.dumps({"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_producer"})
    prefiller = farm.spawn("--kv-transfer-config", transfer, env=env, lmcache_version="0.3.10")
    farm.up(prefiller)
    for port in internal:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/lmc_version") as answer:
            assert json.load(answer) == "0.3.10+simulated"
    with pytest.raises((OSError, AssertionError, HTTPException)):
        prefiller.complete("no disagg_spec here", 1)
    assert prefiller.ended() == 1
    assert "EngineDeadError" in prefiller.log.read_text()


def test_with_two_ranks_a_prompt_split_over_steps_never_arrives(two_ranks: Pair) -> None:
    two_ranks.generate(prompt(64, 7))
    two_ranks.prefill(prompt(65, 8))
    assert two_ranks.notifications(1, seconds=0.3) == []


def test_pd_stays_off_silently_with_the_old_key_names(pair: Start) -> None:
    pd = pair(common={"enable_pd": False, "enable_xpyd": True})
    ids = prompt(20)
    pd.prefill(ids)
    assert pd.notifications(1, seconds=0.3) == []
    pd.decoder.text(ids)
    assert pd.decoder.metric(HITS) == 0
    assert "Unknown configuration key: enable_xpyd" in pd.decoder.log.read_text()
