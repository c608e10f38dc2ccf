"""What is known of the model -> whether tensor parallelism, context length and connector suit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pdctl.knowledge.attention import recurrent_verdict
from pdctl.knowledge.models import MODELS, TINY, KnownModel
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.effect import each_prompt_fits_one_step, the_load_fits_the_model
from pdctl.spec.rules.rule import pools
from pdctl.spec.rules.settings import effective
from pdctl.topology.known import Known

# With these the engine takes other positions than config.json has (vLLM config/model.py).
STRETCHING = ("--hf-overrides", "--rope-scaling", "--hf-config-path")
ALLOW_LONG = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def suits(cluster: Cluster, found: Known, pins: Mapping[str, str]) -> Iterator[Finding]:
    yield from _lengths(cluster, found)
    if found.facts is None or cluster.engine.kind != "vllm":
        return
    yield from _heads(cluster, found.facts)
    yield from _positions(cluster, found)
    yield from _recurrent(cluster, found.facts, pins)


def copies(facts: KnownModel, tensor_parallel: int) -> int:
    """How many ranks hold the same KV."""
    return tensor_parallel if facts.mla else max(1, tensor_parallel // facts.kv_heads)


def fits_heads(facts: KnownModel, tensor_parallel: int) -> bool:
    """What vLLM asserts at start (config/model.py, models/llama.py)."""
    if facts.heads % tensor_parallel:
        return False
    some, more = sorted((facts.kv_heads, tensor_parallel))
    return facts.mla or more % some == 0


def _lengths(cluster: Cluster, found: Known) -> Iterator[Finding]:
    """What else the spec asks of max_model_len, where only the model's own file tells it."""
    if cluster.model.max_model_len is not None or cluster.model.id in MODELS or found.max_model_len is None:
        return
    model = cluster.model.model_copy(update={"max_model_len": found.max_model_len})
    told = cluster.model_copy(update={"model": model})
    yield from each_prompt_fits_one_step(told)
    yield from the_load_fits_the_model(told)


def _heads(cluster: Cluster, facts: KnownModel) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        size = pool.tensor_parallel
        if fits_heads(facts, size):
            continue
        fitting = [n for n in range(1, 65) if fits_heads(facts, n)]
        below, above = [n for n in fitting if n < size], [n for n in fitting if n > size]
        near = [str(n) for n in (*below[-1:], *above[:1])]
        kind = "attention" if facts.heads % size else "KV"
        number = facts.heads if facts.heads % size else facts.kv_heads
        yield Finding(
            "MODEL003",
            (*path, "tensor_parallel"),
            f"{number} {kind} heads of `{cluster.model.id}` cannot be shared out to {size} ranks",
            f"use {' or '.join(near)}",
        )


def _positions(cluster: Cluster, found: Known) -> Iterator[Finding]:
    asked, most = cluster.model.max_model_len, found.facts.max_model_len if found.facts else 0
    if asked is None or not most or asked <= most or cluster.model.id == TINY:
        return
    for _, pool in pools(cluster):
        flags = effective(pool.extra_args)
        if pool.env.get(ALLOW_LONG) == "1" or any(flag in flags for flag in STRETCHING):
            return
    yield Finding(
        "MODEL004",
        ("model", "max_model_len"),
        f"{asked} tokens are more than the {most} that `{cluster.model.id}` is made for ({found.source})",
        f"use {most} at most, or give `--hf-overrides` with a rope scaling on every role",
    )


def _recurrent(cluster: Cluster, facts: KnownModel, pins: Mapping[str, str]) -> Iterator[Finding]:
    serving = cluster.serving
    if not facts.recurrent or serving.mode != "disaggregated":
        return
    what = f"{facts.recurrent} layers of `{cluster.model.id}` keep a state instead of KV"
    vllm = pins.get("vllm", "")
    refused, why = recurrent_verdict(serving.connector, vllm)
    if refused:
        yield Finding(
            "MODEL007",
            ("serving", "connector"),
            f"{what}, and with `{serving.connector}` and vllm {vllm} {why}",
            "use `mode: aggregated`, another model, or `connector: nixl` with a vllm that moves states",
        )
        return
    yield Finding("MODEL008", ("serving", "connector"), f"{what}; {why}", "prove it with `pdctl verify`")
    sizes = [str(pool.tensor_parallel) for _, pool in pools(cluster)]
    if len(set(sizes)) > 1:
        yield Finding(
            "MODEL007",
            ("serving", "decoders", "tensor_parallel"),
            f"{what}, which moves only between sides of one tensor_parallel, not {' and '.join(sizes)}",
            "make them equal",
        )
    for path, pool in pools(cluster):
        value, index = effective(pool.extra_args).get("--enable-prefix-caching", (False, 0))
        if value is True:
            yield Finding(
                "MODEL007",
                (*path, "extra_args", index),
                f"{what}, and prefix caching is not known to work with it over nixl",
                "remove `--enable-prefix-caching`",
            )
