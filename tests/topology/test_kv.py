"""Buffer arithmetic against figures computed elsewhere."""

from __future__ import annotations

import pytest

from pdctl.errors import ErrorGroup
from pdctl.spec.model import KvShape
from pdctl.topology import resolve
from pdctl.topology.kv import chunk_bytes
from pdctl.topology.resolve import survey
from tests.topology.specs import cluster, serving

# Bytes of a 256-token chunk in bf16; the figures are those LMCache itself prints for these shapes.
CHUNKS = [
    ((36, 8, 64), {1: 18874368, 2: 9437184, 4: 4718592, 8: 2359296}),
    ((32, 8, 128), {1: 33554432, 2: 16777216, 4: 8388608, 8: 4194304}),
    ((80, 8, 128), {1: 83886080, 2: 41943040, 4: 20971520, 8: 10485760}),
    ((28, 8, 128), {1: 29360128}),
]


@pytest.mark.parametrize(("shape", "by_tp"), CHUNKS)
def test_chunk_bytes_match_the_published_figures(shape: tuple[int, int, int], by_tp: dict[int, int]) -> None:
    kv = KvShape(layers=shape[0], kv_heads=shape[1], head_dim=shape[2])
    assert {tp: chunk_bytes(kv, tp, 256) for tp in by_tp} == by_tp


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_a_computed_buffer_is_whole_chunks_and_holds_the_longest_prompt(tp: int) -> None:
    kv = resolve(cluster(serving=serving(1, 1, tp))).kv
    assert kv is not None
    assert kv.buffer_bytes % kv.chunk_bytes == 0 and kv.slots * kv.chunk_size >= 131072
    assert kv.prefiller_buffer_bytes == kv.buffer_bytes


def with_buffer(size: int, max_model_len: int, **model: object) -> None:
    resolve(
        cluster(
            model={"id": "meta-llama/Llama-3.1-8B-Instruct", "max_model_len": max_model_len, **model},
            serving=serving(1, 1, 1) | {"lmcache": {"buffer_bytes": size}},
        )
    )


def test_a_buffer_of_broken_chunks_is_refused_with_both_neighbours() -> None:
    with pytest.raises(ErrorGroup) as caught:
        with_buffer(2**30, 8192, kv={"layers": 28, "kv_heads": 8, "head_dim": 128})
    error = caught.value.errors[0]
    assert "36.57 KV chunks of 29360128" in str(error)
    assert "1056964608" in str(error.hint) and "1086324736" in str(error.hint)


def test_a_buffer_smaller_than_one_prompt_is_refused_and_names_both_fields() -> None:
    with pytest.raises(ErrorGroup) as caught:
        with_buffer(2**30, 16384)
    error = caught.value.errors[0]
    assert error.where == "serving.lmcache.buffer_bytes" and "model.max_model_len" in str(error)
    with_buffer(2**30, 4096)


@pytest.mark.parametrize(
    ("given", "args", "dtype", "engine", "told"),
    [
        (1, [], None, "vllm", "2 bytes, since no `--kv-cache-dtype` is given"),
        (1, ["--kv-cache-dtype=auto"], None, "vllm", "2 bytes, since"),
        (1, ["--kv_cache_dtype", "bfloat16"], None, "vllm", "2 bytes"),
        (1, [], "float32", "vllm", "4 bytes"),
        (2, ["--kv-cache-dt", "fp8"], None, "vllm", "1 byte"),
        (2, ["--kv-cache-dtype=fp8_e5m2"], "float32", "vllm", "1 byte"),
        (2, ["--kv-cache-dtype", "int8_per_token_head"], None, "vllm", "1 byte"),
        (4, [], None, "vllm", "2 bytes"),
        (4, [], "auto", "vllm", "2 bytes"),
        (1, ["--kv-cache-dtype", "fp8"], None, "vllm", None),
        (2, [], None, "vllm", None),
        (2, [], "half", "vllm", None),
        (4, [], "float", "vllm", None),
        (1, ["--kv-cache-dtype=nvfp4"], None, "vllm", None),  # not known
        (1, [], None, "simulator", None),
        (None, ["--kv-cache-dtype", "fp8"], None, "vllm", None),
    ],
)
@pytest.mark.parametrize("model", ["acme/unheard-of", "openai/gpt-oss-120b"])
def test_the_bytes_of_a_value_are_those_that_engines_store(
    given: int | None, args: list[str], dtype: str | None, engine: str, told: str | None, model: str
) -> None:
    kv = {"layers": 36, "kv_heads": 8, "head_dim": 64} | ({"bytes_per_value": given} if given else {})
    role = {"extra_args": args}
    spec = cluster(
        engine={"kind": engine},
        model={"id": model, "max_model_len": 4096, "kv": kv} | ({"dtype": dtype} if dtype else {}),
        serving={"prefillers": role, "decoders": role},
    )
    found = [each.message for each in survey(spec)[1] if each.rule == "MODEL005"]
    assert len(found) == (told is not None) and all(told in text for text in found if told)


def test_an_unknown_model_needs_its_shape() -> None:
    with pytest.raises(ErrorGroup, match="1 error"):
        resolve(cluster(model={"id": "acme/unheard-of"}))
    resolve(
        cluster(
            model={
                "id": "acme/unheard-of",
                "max_model_len": 4096,
                "kv": {"layers": 4, "kv_heads": 4, "head_dim": 64},
            }
        )
    )
