"""Cluster, and this machine's copy of its model -> what is known of the model, and where that is from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pdctl.knowledge.gpus import GPUS
from pdctl.knowledge.models import MODELS, KnownModel
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster, KvShape
from pdctl.spec.model_files import ModelFiles
from pdctl.spec.rules.rule import guess, pools
from pdctl.spec.rules.settings import effective
from pdctl.topology.placement import uses_gpus

TABLE = "pdctl's table of models"
# Bytes of a value by the names that --kv-cache-dtype and --dtype know (vLLM config/cache.py, 0.32.0).
BYTES = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
EIGHT_BITS = ("fp8", "int8")  # how the names of formats with one byte begin; those of four bits are not known
AUTO = 2  # vLLM's choice: the dtype of the model, of 16 bits also where float32 is stored
COMPARED = ("layers", "kv_heads", "head_dim", "mla")


@dataclass(frozen=True)
class Known:
    """`facts` are those of `source`; `shape` is the spec's own where it gives one."""

    shape: KvShape | None = None
    facts: KnownModel | None = None
    source: str = ""
    max_model_len: int | None = None


def known(cluster: Cluster, files: ModelFiles | None = None) -> Known:
    """`model.kv` over the model's own config.json, and that over the table."""
    listed = MODELS.get(cluster.model.id)
    facts, source = listed, TABLE
    if files is not None and files.facts is not None:
        facts, source = files.facts, files.config
        if listed is not None and not facts.weight_bytes:
            facts = replace(facts, weight_bytes=listed.weight_bytes)
    longest = cluster.model.max_model_len or (facts.max_model_len if facts else 0) or None
    return Known(_shape(cluster, facts), facts, source if facts else "", longest)


def contradictions(cluster: Cluster, found: Known) -> Iterator[Finding]:
    """What the spec says of the model, against the model."""
    given, facts = cluster.model.kv, found.facts
    if given is None:
        return
    for name in COMPARED if facts is not None else ():
        ours, theirs = getattr(given, name), getattr(facts, name)
        if ours != theirs:
            yield Finding(
                "MODEL005",
                ("model", "kv", name),
                f"`{name}` is {_plain(ours)} here and {_plain(theirs)} in {found.source}",
                "remove `model.kv`; or suppress the rule, and what stands here counts",
            )
    yield from _other_bytes(cluster, given, facts)


def _other_bytes(cluster: Cluster, given: KvShape, facts: KnownModel | None) -> Iterator[Finding]:
    """`bytes_per_value` against what engines store: as they are told, else as the model has it."""
    if "bytes_per_value" not in given.model_fields_set or cluster.engine.kind != "vllm":
        return
    told = _engines_bytes(cluster)
    size = (facts.bytes_per_value if facts else AUTO) if told is None else told
    if not size or size == given.bytes_per_value:
        return
    why = "" if told else ", since no `--kv-cache-dtype` is given"
    flag = {1: "fp8", 2: "bfloat16"}.get(given.bytes_per_value)
    ways = ["remove it"] + (
        [f"give every role `--kv-cache-dtype {flag}` in its `extra_args`"] if flag else []
    )
    yield Finding(
        "MODEL005",
        ("model", "kv", "bytes_per_value"),
        f"`bytes_per_value` is {given.bytes_per_value} here, and the engines keep KV in"
        f" {size} byte{'' if size == 1 else 's'}{why}",
        ", or ".join(ways),
    )


def unreadable(files: ModelFiles | None) -> Iterator[Finding]:
    if files is not None and files.problem:
        yield Finding(
            "MODEL006",
            ("model",),
            f"{files.config} {files.problem}",
            "mend the file; or give `model.kv` and `model.max_model_len`, and suppress the rule",
        )


def unchecked(cluster: Cluster, found: Known, files: ModelFiles | None) -> Iterator[Finding]:
    """A model that nothing is known of, or not the size of its weights: checks that are left out."""
    if not uses_gpus(cluster) or (files is not None and files.problem):
        return
    name = cluster.model.id
    if found.facts is None and not (found.shape is None and sizes_buffers(cluster)):  # MODEL002 tells that
        close = guess(name, MODELS)
        yield Finding(
            "MODEL012",
            ("model", "id"),
            f"pdctl does not know `{name}`, and its config.json is not on this machine: whether the weights"
            " fit into a GPU, the heads into the ranks, and the context is not checked",
            (f"{close} Else copy" if close.startswith("did") else "copy")
            + " its config.json here (`model.path`),"
            " or reckon for yourself and suppress the rule",
        )
    elif found.facts is not None and not found.facts.weight_bytes and _memory_is_known(cluster):
        yield Finding(
            "MODEL012",
            ("model", "id"),
            f"how large the weights of `{name}` are is not known ({found.source}): whether they fit into a"
            " GPU is not checked",
            "copy its files here (`model.path`), or reckon for yourself and suppress the rule",
        )


def sizes_buffers(cluster: Cluster) -> bool:
    return cluster.serving.mode == "disaggregated" and cluster.serving.connector == "lmcache"


def _memory_is_known(cluster: Cluster) -> bool:
    return any(host.gpus.memory_gib or host.gpus.model in GPUS for host in cluster.hosts)


def _shape(cluster: Cluster, facts: KnownModel | None) -> KvShape | None:
    own, size = cluster.model.kv, _engines_bytes(cluster)
    if own is not None:
        if "bytes_per_value" in own.model_fields_set or not size:
            return own
        return own.model_copy(update={"bytes_per_value": size})
    if facts is None or not facts.layers:
        return None
    return KvShape.model_validate(
        {
            "layers": facts.layers,
            "kv_heads": facts.kv_heads,
            "head_dim": facts.head_dim,
            "bytes_per_value": size or facts.bytes_per_value,
            "mla": facts.mla,
        }
    )


def _engines_bytes(cluster: Cluster) -> int | None:
    """Of a value of the KV cache, as the engines are called; None where that follows from the model."""
    for _, pool in pools(cluster):
        value, _ = effective(pool.extra_args).get("--kv-cache-dtype", ("auto", 0))
        if isinstance(value, str) and value != "auto":
            return 1 if value.startswith(EIGHT_BITS) else BYTES.get(value, 0)
    if cluster.model.dtype not in (None, "auto"):
        return BYTES.get(str(cluster.model.dtype), 0)
    on_cpu = cluster.engine.kind == "vllm" and cluster.engine.device == "cpu"
    return 4 if on_cpu and cluster.model.dtype is None else None  # pdctl calls it with --dtype float32


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
