"""How large the KV of a model is on one rank, and how large the transfer buffers must be.

chunk bytes per rank = layers x 2 (1 for MLA) x chunk_size x max(1, kv_heads // TP) x head_dim x bytes
(LMCache memory_management.py, pd_backend.py). LMCache before 0.4.3 asserts that the buffer is an exact
multiple of it, later ones round down; an exact multiple is right under both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from pdctl.knowledge.models import MODELS
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster, KvShape
from pdctl.spec.model_files import ModelFiles
from pdctl.spec.rules.rule import guess
from pdctl.topology.known import Known
from pdctl.topology.model import Kv

# A buffer holds at least this many chunks, so that several shorter prompts can be in flight at once.
LEAST_SLOTS = 256


def chunk_bytes(shape: KvShape, tensor_parallel: int, chunk_size: int) -> int:
    """Bytes of one KV chunk on one rank."""
    parts = 1 if shape.mla else 2
    heads = max(1, shape.kv_heads // tensor_parallel)
    return shape.layers * parts * chunk_size * heads * shape.head_dim * shape.bytes_per_value


def size(
    cluster: Cluster, found: Known, tensor_parallel: int, files: ModelFiles | None = None
) -> tuple[Kv | None, list[Finding]]:
    """Buffers for LMCache: a whole number of chunks, at least one prompt of max_model_len."""
    shape, longest = found.shape, found.max_model_len
    if shape is None or longest is None:
        missing = "model.kv" if shape is None else "model.max_model_len"
        why = f" ({files.config} {files.problem})" if files and files.problem else ""
        close = guess(cluster.model.id, MODELS) if shape is None else ""
        return None, [
            Finding(
                "MODEL002",
                ("model",),
                f"pdctl does not know `{cluster.model.id}`, so it needs `{missing}` to size the KV buffers"
                f"{why}",
                (f"{close} Else copy" if close.startswith("did") else "copy")
                + " layers, kv_heads and head_dim from the model's config.json into `model.kv`, and give"
                " `model.max_model_len`",
            )
        ]
    tuning = cluster.serving.lmcache
    one = chunk_bytes(shape, tensor_parallel, tuning.chunk_size)
    prompt = math.ceil(longest / tuning.chunk_size)
    default = max(LEAST_SLOTS, prompt + 1)
    errors: list[Finding] = []
    slots = _slots("buffer_bytes", tuning.buffer_bytes, one, default, prompt, longest, errors)
    sender = _slots(
        "prefiller_buffer_bytes", tuning.prefiller_buffer_bytes, one, slots, prompt, longest, errors
    )
    kv = Kv(one // tuning.chunk_size, tuning.chunk_size, one, slots, sender)
    return kv, errors


def _slots(
    name: str, given: int | None, one: int, default: int, prompt: int, longest: int, errors: list[Finding]
) -> int:
    if given is None:
        return default
    path = ("serving", "lmcache", name)
    if given % one:
        near = [count for count in (given // one, given // one + 1) if count]
        offers = [f"{count * one} ({count} chunk{'s'[: count != 1]})" for count in near]
        errors.append(
            Finding(
                "KV001",
                path,
                f"{given} bytes is {given / one:.2f} KV chunks of {one} bytes; LMCache needs a whole number",
                f"use {' or '.join(offers)}, or leave it out",
            )
        )
    elif given // one < prompt:
        errors.append(
            Finding(
                "KV002",
                path,
                f"{given} bytes hold {given // one} chunks, but one prompt of model.max_model_len"
                f" {longest} tokens needs {prompt}: it could never be transferred",
                f"use at least {prompt * one}, or lower model.max_model_len",
            )
        )
    elif given // one < 2 * prompt:
        errors.append(
            Finding(
                "KV007",
                path,
                f"{given} bytes hold {given // one} chunks, and two prompts of model.max_model_len {longest}"
                f" tokens need {2 * prompt}: long ones are handed over one after the other",
                f"use {2 * prompt * one}, or lower model.max_model_len",
            )
        )
    return max(1, given // one)


# Tokens of a prompt where the spec names none: what most reports of a full buffer used (LMCache issue 2365).
TYPICAL_PROMPT = 1000


def doubts(cluster: Cluster, kv: Kv | None) -> Iterator[Finding]:
    """What a buffer holds at once, against the requests that the spec lets in."""
    decoders, bench = cluster.serving.decoders, cluster.bench
    if kv is None or decoders is None:
        return
    length = bench.input_len or TYPICAL_PROMPT
    chunks = math.ceil(length / kv.chunk_size)
    fit, seqs = kv.slots // chunks, decoders.max_num_seqs
    if cluster.serving.lmcache.buffer_bytes is not None and seqs is not None and fit < seqs:
        yield Finding(
            "KV005",
            ("serving", "lmcache", "buffer_bytes"),
            f"only {fit} prompts of {length} tokens fit into {kv.slots} chunks at once, and decoders take"
            f" {seqs} requests (`max_num_seqs`): the others wait at the proxy",
            f"{seqs} of them need {seqs * chunks * kv.chunk_bytes} bytes; or leave it out",
        )
    most = fit * decoders.count
    if bench.input_len is not None and bench.concurrency is not None and bench.concurrency > most:
        yield Finding(
            "KV006",
            ("bench", "concurrency"),
            f"{bench.concurrency} prompts of {length} tokens are more than the {most} that fit into the"
            f" buffers of all decoders at once, so the TTFT will hold time in the queue",
            "lower it, add decoders, or raise `serving.lmcache.buffer_bytes`",
        )


def in_flight_tokens(kv: Kv) -> int:
    """Prompt tokens that fit in a decoder's buffer at once: the bound of what may be in flight."""
    return kv.slots * kv.chunk_size
