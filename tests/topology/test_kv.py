"""Buffer arithmetic against figures computed elsewhere."""

from __future__ import annotations

import pytest

from pdctl.errors import ErrorGroup
from pdctl.spec.model import KvShape
from pdctl.topology import resolve
from pdctl.topology.kv import chunk_bytes
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
