"""Memory of a GPU against figures computed elsewhere, and what is told where it does not suffice."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.topology.figures import RoleFigures, figures
from pdctl.topology.resolve import survey
from tests.topology.specs import cluster, serving

H100 = {"count": 8, "model": "H100-SXM-80GB"}
MEMORY = {"MEM001", "MEM002", "MEM003", "MEM004"}


def on_gpus(model: str, pools: dict[str, Any], gpus: dict[str, Any] = H100, **more: Any) -> set[str]:
    host = {"name": "gpu01", "address": "10.0.0.11", "gpus": gpus}
    _, findings = survey(cluster(hosts=[host], model={"id": model, **more}, serving=pools))
    return {found.rule for found in findings} & MEMORY


def aggregated(tensor_parallel: int, **more: Any) -> dict[str, Any]:
    return {"mode": "aggregated", "instances": {"tensor_parallel": tensor_parallel, **more}}


@pytest.mark.parametrize(
    ("model", "tensor_parallel", "fits"),
    [
        ("openai/gpt-oss-120b", 1, "yes"),
        ("meta-llama/Llama-3.1-8B-Instruct", 1, "yes"),
        ("meta-llama/Llama-3.3-70B-Instruct", 1, "no"),
        ("meta-llama/Llama-3.3-70B-Instruct", 2, "no"),  # about 16,000 tokens, of 131,072
        ("meta-llama/Llama-3.3-70B-Instruct", 4, "yes"),
        ("Qwen/Qwen3-32B", 1, "perhaps"),  # about 29,000 tokens, of 40,960
        ("Qwen/Qwen3-32B", 2, "yes"),
        ("Qwen/Qwen3-235B-A22B-FP8", 2, "no"),
        ("Qwen/Qwen3-235B-A22B-FP8", 4, "yes"),
        ("Qwen/Qwen3-235B-A22B-FP8", 8, "yes"),
        ("deepseek-ai/DeepSeek-V3", 8, "no"),  # 80 GiB of weights on each GPU
    ],
)
def test_what_fits_on_an_h100(model: str, tensor_parallel: int, fits: str) -> None:
    found = on_gpus(model, aggregated(tensor_parallel))
    assert found == {"yes": set(), "perhaps": {"MEM002"}, "no": {"MEM001"}}[fits]


def test_deepseek_fits_where_gpus_are_larger() -> None:
    h200 = {"count": 8, "model": "H200-SXM-141GB"}
    assert on_gpus("deepseek-ai/DeepSeek-V3", aggregated(8), h200) == set()


def test_gpt_oss_with_lmcache_needs_two_gpus_for_its_whole_context() -> None:
    assert on_gpus("openai/gpt-oss-120b", serving(1, 1, 1)) == {"MEM001"}
    assert on_gpus("openai/gpt-oss-120b", serving(1, 1, 1), max_model_len=32768) == set()
    assert on_gpus("openai/gpt-oss-120b", serving(1, 1, 2)) == set()


def test_a_shorter_context_or_more_ranks_are_offered_and_suffice() -> None:
    host = {"name": "gpu01", "address": "10.0.0.11", "gpus": H100}
    model = {"id": "meta-llama/Llama-3.3-70B-Instruct"}
    _, findings = survey(cluster(hosts=[host], model=model, serving=aggregated(2)))
    [found] = [found for found in findings if found.rule == "MEM001"]
    assert found.hint == "use tensor_parallel 4, or set `model.max_model_len` to 16384 or less"
    assert on_gpus(model["id"], aggregated(4)) == set()
    assert on_gpus(model["id"], aggregated(2), max_model_len=16384) == set()


@pytest.mark.parametrize("flag", ["--quantization=fp8", "--cpu-offload-gb=40", "--kv_cache_memory_bytes=1"])
def test_settings_that_change_the_shares_end_the_estimate(flag: str) -> None:
    pools = aggregated(1, extra_args=[flag])
    assert on_gpus("meta-llama/Llama-3.3-70B-Instruct", pools) == set()


def test_nothing_is_said_of_gpus_that_are_not_known() -> None:
    assert on_gpus("deepseek-ai/DeepSeek-V3", aggregated(8), {"count": 8}) == set()
    assert on_gpus("deepseek-ai/DeepSeek-V3", aggregated(8), {"count": 8, "memory_gib": 80}) == {"MEM001"}


@pytest.mark.parametrize(
    ("share", "rules"),
    [(0.95, set()), (0.98, {"MEM004"}), (0.99, {"MEM004"}), (0.995, {"MEM003"}), (1.0, {"MEM003"})],
)
@pytest.mark.parametrize("connector", ["nixl", None])
def test_the_context_needs_room_without_a_buffer_too(
    share: float, rules: set[str], connector: str | None
) -> None:
    each = {"gpu_memory_utilization": share}
    pools = (
        {"connector": connector, "prefillers": each, "decoders": {}} if connector else aggregated(1, **each)
    )
    assert on_gpus("Qwen/Qwen3-8B", pools) == rules
    assert on_gpus("acme/unheard-of", pools) == rules


def test_no_gpu_can_be_given_away_whole() -> None:
    for gpus in ({"count": 8}, {"count": 8, "model": "RTX-9090"}):
        assert on_gpus("acme/unheard-of", aggregated(1, gpu_memory_utilization=1.0), gpus) == {"MEM003"}
        assert on_gpus("acme/unheard-of", aggregated(1, gpu_memory_utilization=0.99), gpus) == set()


@pytest.mark.parametrize(
    ("model", "dtype", "rules"),
    [
        ("Qwen/Qwen3-14B", None, set()),
        ("Qwen/Qwen3-14B", "half", set()),
        ("Qwen/Qwen3-14B", "float32", {"MEM001"}),
        ("Qwen/Qwen3-14B", "float", {"MEM001"}),
        ("openai/gpt-oss-20b", "float32", set()),  # as it is packed
    ],
)
def test_weights_in_float32_take_twice_the_memory(model: str, dtype: str | None, rules: set[str]) -> None:
    gpu = {"count": 8, "memory_gib": 44}
    more = {"dtype": dtype} if dtype else {}
    assert on_gpus(model, aggregated(1), gpu, max_model_len=16384, **more) == rules


def role(model: str, pools: dict[str, Any], **more: Any) -> RoleFigures:
    host = {"name": "gpu01", "address": "10.0.0.11", "gpus": H100}
    topology, _ = survey(cluster(hosts=[host], model={"id": model}, serving=pools, **more))
    found = figures(topology)
    assert found is not None
    return found.roles[-1]


@pytest.mark.parametrize(
    ("model", "tensor_parallel", "tokens"),
    [
        ("openai/gpt-oss-120b", 2, 1_100_000),
        ("openai/gpt-oss-120b", 4, 3_090_000),
        ("meta-llama/Llama-3.3-70B-Instruct", 4, 463_000),
        ("Qwen/Qwen3-32B", 2, 309_000),
        ("Qwen/Qwen3-235B-A22B-FP8", 4, 294_000),
    ],
)
def test_the_tokens_that_fit_are_those_computed_by_hand(
    model: str, tensor_parallel: int, tokens: int
) -> None:
    found = role(model, aggregated(tensor_parallel, gpu_memory_utilization=0.9))
    assert found.kv_tokens == pytest.approx(tokens, rel=0.04)


@pytest.mark.parametrize(
    ("model", "tensor_parallel", "token", "copies"),
    [
        ("openai/gpt-oss-120b", 1, 73728, 1),
        ("openai/gpt-oss-120b", 2, 36864, 1),
        ("Qwen/Qwen3-235B-A22B-FP8", 8, 192512 // 4, 2),
        ("deepseek-ai/DeepSeek-V3", 8, 70272, 8),
    ],
)
def test_kv_of_a_token_on_each_rank(model: str, tensor_parallel: int, token: int, copies: int) -> None:
    found = role(model, aggregated(tensor_parallel))
    assert (found.kv_bytes_per_token, found.kv_copies) == (token, copies)


@pytest.mark.parametrize(
    ("args", "token"), [([], 73728), (["--kv-cache-dtype", "fp8"], 36864), (["--kv-cache-dtype=auto"], 73728)]
)
def test_kv_in_eight_bits_is_half_as_large(args: list[str], token: int) -> None:
    pools = {"connector": "nixl", "prefillers": {"extra_args": args}, "decoders": {"extra_args": args}}
    assert role("openai/gpt-oss-120b", pools).kv_bytes_per_token == token
