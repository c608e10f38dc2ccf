"""Rules on keys that would have no effect where they stand."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.models import MODELS
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.rule import pools
from pdctl.spec.rules.settings import effective

# Flags that split a prompt over steps; 0 stands for no limit (vLLM config/scheduler.py).
SPLITTING = ("--long-prefill-token-threshold", "--max-num-scheduled-tokens")
# Which connector has an engine of which pool open the ports.
OPENED = {
    "side_channel": ("nixl", {"prefillers", "decoders"}),
    "init": ("lmcache", {"decoders"}),
    "alloc": ("lmcache", {"decoders"}),
}


def placement_stands_alone(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        for key in ("hosts", "labels"):
            if pool.placement is not None and getattr(pool, key):
                yield Finding(
                    "USE001",
                    (*path, key),
                    "has no effect beside `placement`, which names a host for each instance",
                    f"remove `{key}`, or remove `placement`",
                    on_key=True,
                )


def pinned_ports_are_opened(cluster: Cluster) -> Iterator[Finding]:
    serving = cluster.serving
    connector = serving.connector if serving.mode == "disaggregated" else "none"
    for path, pool in pools(cluster):
        for i, place in enumerate(pool.placement or ()):
            for name, (needed, openers) in OPENED.items():
                if getattr(place.ports, name) is None or (connector == needed and path[-1] in openers):
                    continue
                yield Finding(
                    "USE002",
                    (*path, "placement", i, "ports", name),
                    f"only {' and '.join(sorted(openers))} with the {needed} connector open `{name}` ports",
                    f"remove `{name}`",
                    on_key=True,
                )


def each_prompt_fits_one_step(cluster: Cluster) -> Iterator[Finding]:
    """LMCache sends a prompt that was split over two steps again from its start (pd_backend.py)."""
    serving, pool = cluster.serving, cluster.serving.prefillers
    if serving.mode != "disaggregated" or serving.connector != "lmcache" or pool is None:
        return
    known = MODELS.get(cluster.model.id)
    longest = cluster.model.max_model_len or (known.max_model_len if known else 0)
    if pool.tensor_parallel == 1:
        return
    field: tuple[str | int, ...] = ("max_num_batched_tokens",)
    limits = [(field, "it", pool.max_num_batched_tokens)]
    flags = effective(pool.extra_args)
    limits += [
        (("extra_args", flags[name][1]), f"`{name}`", flags[name][0]) for name in SPLITTING if name in flags
    ]
    for where, name, budget in limits:
        if isinstance(budget, int) and 0 < budget < longest:
            yield Finding(
                "KV003",
                ("serving", "prefillers", *where),
                f"prefillers with tensor_parallel {pool.tensor_parallel} and lmcache take a prompt in one"
                f" step, so {name} must be at least the {longest} tokens of max_model_len, not {budget}",
                "leave it out, use tensor_parallel 1, or use `connector: nixl`",
            )


def a_step_holds_all_requests(cluster: Cluster) -> Iterator[Finding]:
    """vLLM refuses to start otherwise (config/scheduler.py)."""
    for path, pool in pools(cluster):
        budget, seqs = pool.max_num_batched_tokens, pool.max_num_seqs
        if budget is not None and seqs is not None and budget < seqs:
            yield Finding(
                "ENGINE004",
                (*path, "max_num_batched_tokens"),
                f"a step of {budget} tokens cannot hold a token of each of {seqs} requests (`max_num_seqs`)",
                "raise it, or lower `max_num_seqs`",
            )


def the_load_fits_the_model(cluster: Cluster) -> Iterator[Finding]:
    bench, known = cluster.bench, MODELS.get(cluster.model.id)
    longest = cluster.model.max_model_len or (known.max_model_len if known else None)
    total = (bench.input_len or 0) + (bench.output_len or 0)
    if longest is not None and total > longest:
        field = "input_len" if bench.input_len is not None else "output_len"
        yield Finding(
            "BENCH001",
            ("bench", field),
            f"{bench.input_len or 0} input and {bench.output_len or 0} output tokens are more than the"
            f" {longest} of max_model_len, so every request would be refused",
            "shorten them, or raise `model.max_model_len`",
        )


def transfer_settings_have_a_transfer(cluster: Cluster) -> Iterator[Finding]:
    serving = cluster.serving
    if serving.mode == "aggregated" and "connector" in serving.model_fields_set:
        yield _unused(("serving", "connector"), "mode `aggregated`, which moves no KV")
    if serving.mode == "disaggregated" and serving.connector == "lmcache":
        return
    why = "mode `aggregated`" if serving.mode == "aggregated" else f"`connector: {serving.connector}`"
    for name in sorted(serving.lmcache.model_fields_set - {"hash_seed"}):  # vLLM hashes prefixes with it too
        yield _unused(("serving", "lmcache", name), why)


def _unused(path: tuple[str, ...], where: str) -> Finding:
    return Finding("USE003", path, f"has no effect with {where}", "remove it", on_key=True)
