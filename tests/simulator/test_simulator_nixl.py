"""KV goes from a prefiller to a decoder as vLLM's NixlConnector moves it, and fails as it fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.simulator.simulated import BYTES_PER_TOKEN, Farm, Instance, Json, farm_in, free_ports, until

HITS = "vllm:external_prefix_cache_hits_total"
WANTED = {"do_remote_decode": True, "do_remote_prefill": False}


@dataclass
class Nixl:
    prefiller: Instance
    decoder: Instance

    def prefill(self, prompt: str) -> Json:
        answer = self.prefiller.complete(prompt, 1, kv_transfer_params=WANTED)
        return dict(answer["kv_transfer_params"])

    def generate(self, prompt: str) -> str:
        return self.decoder.text(prompt, 12, kv_transfer_params=self.prefill(prompt))


@pytest.fixture(scope="module")
def pd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nixl]:
    with farm_in(tmp_path_factory.mktemp("nixl")) as farm:
        started = Nixl(spawn(farm, "kv_producer"), spawn(farm, "kv_consumer"))
        farm.up(started.prefiller, started.decoder)
        yield started


def spawn(farm: Farm, role: str, policy: str = "fail", lease: float = 30, **parameters: object) -> Instance:
    transfer = {
        "kv_connector": "NixlConnector",
        "kv_role": role,
        "kv_load_failure_policy": policy,
        "kv_connector_extra_config": {"kv_lease_duration": lease},
    }
    env = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_ports(1)[0])}
    return farm.spawn("--kv-transfer-config", json.dumps(transfer), env=env, **parameters)


def test_the_decoder_reads_the_prompt_and_writes_what_an_aggregated_server_writes(
    pd: Nixl, aggregated: Instance
) -> None:
    prompts = ["x", "a prompt of some length", "and another, in two bytes a token"]
    for prompt in prompts:
        assert pd.generate(prompt) == aggregated.text(prompt, 12)
    tokens = sum(-(-len(prompt) // 2) for prompt in prompts)
    assert pd.decoder.metric(HITS) == tokens
    assert pd.decoder.metric("vllm:nixl_bytes_transferred_sum") == tokens * BYTES_PER_TOKEN
    assert pd.decoder.metric("vllm:nixl_xfer_time_seconds_count") == len(prompts)
    assert pd.prefiller.metric("vllm:kv_cache_usage_perc") == 0

    for side in (pd.prefiller, pd.decoder):
        side.fault(corrupt_kv=True)
        assert pd.generate("corrupted on the way") != aggregated.text("corrupted on the way", 12)
        side.fault(corrupt_kv=False)


def test_kv_that_cannot_be_read_fails_the_request(pd: Nixl) -> None:
    failed, hits = (pd.decoder.metric(name) for name in ("vllm:nixl_num_failed_transfers_total", HITS))
    read = pd.prefill("read twice")
    pd.decoder.text("read twice", kv_transfer_params=read)
    cases = [
        (read, "expired or already read"),
        ({**pd.prefill("other"), "remote_engine_id": "x"}, "engine id mismatch"),
        ({**read, "remote_port": free_ports(1)[0]}, "no answer from"),
        ({"do_remote_prefill": True}, "name no prefiller"),
    ]
    for params, reason in cases:
        fails(pd.decoder, params, reason)
    refused = pd.prefill("refused")
    pd.prefiller.fault(refuse_kv=True)
    fails(pd.decoder, refused, "refused, as told")
    pd.prefiller.fault(refuse_kv=False)
    assert pd.decoder.metric("vllm:nixl_num_failed_transfers_total") - failed == 5
    assert pd.decoder.metric(HITS) - hits == 5


def fails(decoder: Instance, params: Json, reason: str) -> None:
    body = {"prompt": "x", "max_tokens": 4, "kv_transfer_params": params}
    status, answer = decoder.call("POST", "/v1/completions", body)
    assert (status, answer["error"]["type"]) == (500, "InternalServerError")
    assert reason in answer["error"]["message"]


def test_unreadable_kv_is_computed_again_where_the_policy_says_so(
    farm: Farm, pd: Nixl, aggregated: Instance
) -> None:
    decoder = spawn(farm, "kv_consumer", policy="recompute")
    farm.up(decoder)
    params = {**pd.prefill("not there"), "remote_request_id": "another"}
    assert decoder.text("not there", 12, kv_transfer_params=params) == aggregated.text("not there", 12)
    assert decoder.metric(HITS) == 0


def test_a_stream_whose_kv_cannot_be_read_ends_with_an_error(pd: Nixl) -> None:
    body = {"prompt": "x", "stream": True, "kv_transfer_params": {"do_remote_prefill": True}}
    _, stream = pd.decoder.call("POST", "/v1/completions", body)
    first, done, _ = stream.split("\n\n")
    assert json.loads(first.removeprefix("data: "))["error"]["code"] == 500
    assert done == "data: [DONE]"


def test_kv_that_nobody_reads_takes_room_until_its_lease_is_over(farm: Farm) -> None:
    prefiller = spawn(farm, "kv_producer", lease=0.3)
    farm.up(prefiller)
    prefiller.complete("never read", 1, kv_transfer_params=WANTED)
    assert prefiller.metric("vllm:kv_cache_usage_perc") > 0
    until(lambda: prefiller.metric("vllm:nixl_num_kv_expired_reqs_total") == 1)
    assert prefiller.metric("vllm:kv_cache_usage_perc") == 0


def test_vllm_0_11_has_a_side_channel_for_each_rank_and_flat_block_ids(farm: Farm) -> None:
    taken = free_ports(3)[0]
    transfer = json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"})
    env = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(taken)}
    flags = ("--kv-transfer-config", transfer, "-tp", "2")
    first = farm.spawn(*flags, env=env, vllm_version="0.11.0")
    farm.up(first)
    env["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(taken + 1)
    second = farm.spawn(*flags, env=env, vllm_version="0.11.0")
    assert second.ended() == 1
    assert re.search(rf"cannot bind 127.0.0.1:{taken + 1}: Address already in use", second.log.read_text())
    params = first.complete("a prompt of more than sixteen tokens", 1, kv_transfer_params=WANTED)
    assert params["kv_transfer_params"]["remote_block_ids"] == [0, 1]


def test_a_text_that_ends_with_its_first_token_hands_nothing_over(farm: Farm) -> None:
    prefiller = spawn(farm, "kv_producer", eos_every=1)
    farm.up(prefiller)
    answer = prefiller.complete("x", 1, ignore_eos=False, kv_transfer_params=WANTED)
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["kv_transfer_params"] is None


def test_vllm_0_11_says_in_its_log_and_in_no_counter_what_it_read(farm: Farm) -> None:
    transfer = json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"})
    env = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_LOG_STATS_INTERVAL": "0.2"}
    engines = [
        farm.spawn(
            "--kv-transfer-config",
            transfer,
            env={**env, "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_ports(1)[0])},
            vllm_version="0.11.0",
        )
        for _ in range(2)
    ]
    farm.up(*engines)
    Nixl(*engines).generate("read once")
    decoder = engines[1]
    until(lambda: "KV Transfer metrics: num_successful_transfers=1\n" in decoder.log.read_text())
    shown = decoder.call("GET", "/metrics")[1]
    assert "vllm:prompt_tokens_total" in shown
    assert not re.search("external|by_source|nixl", shown)
