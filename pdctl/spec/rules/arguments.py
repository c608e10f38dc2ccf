"""Rules on `extra_args`: flags that pdctl sets itself, whichever way they are spelled."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.flags import REPEATED
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.rules.rule import pools
from pdctl.spec.rules.settings import FLAG, Given, given, read_value
from pdctl.spec.secrecy import shown

UNSUPPORTED = "pdctl runs an instance on one host with tensor parallelism only"
PLAIN_HTTP = "the proxy speaks plain HTTP to the engines"
# Flags of `vllm serve` (0.11.0 to 0.33.0, arg_utils.py and cli_args.py) and the field to use instead.
OWNED = {
    "--host": "use `private_address` of the host",
    "--port": "use `serving.ports`, or `ports` in `placement`",
    "--uds": "the proxy reaches engines by TCP",
    "--model": "use `model.id` or `model.path`",
    "--served-model-name": "use `model.served_name`",
    "--revision": "use `model.revision`",
    "--dtype": "use `model.dtype`",
    "--max-model-len": "use `model.max_model_len`",
    "--tensor-parallel-size": "use `tensor_parallel`",
    "--gpu-memory-utilization": "use `gpu_memory_utilization`",
    "--max-num-seqs": "use `max_num_seqs`",
    "--max-num-batched-tokens": "use `max_num_batched_tokens`",
    "--kv-transfer-config": "use `serving.connector`",
    # Puts its own connector in the place of the one that moves KV (vLLM config/vllm.py, kv_offloading_size).
    "--kv-offloading-size": "it replaces the connector that moves KV between engines",
    "--kv-offloading-backend": "it replaces the connector that moves KV between engines",
    "--config": "a second file would override this one; write its flags here",
    "--hf-token": "name it under `secrets` as HF_TOKEN",
    "--api-key": "name it under `secrets` as VLLM_API_KEY",
    "--pipeline-parallel-size": UNSUPPORTED,
    "--prefill-context-parallel-size": UNSUPPORTED,
    "--decode-context-parallel-size": UNSUPPORTED,
    "--data-parallel-size": UNSUPPORTED,
    "--data-parallel-size-local": UNSUPPORTED,
    "--data-parallel-rank": UNSUPPORTED,
    "--data-parallel-start-rank": UNSUPPORTED,
    "--data-parallel-address": UNSUPPORTED,
    "--data-parallel-rpc-port": UNSUPPORTED,
    "--data-parallel-backend": UNSUPPORTED,
    "--data-parallel-hybrid-lb": UNSUPPORTED,
    "--data-parallel-external-lb": UNSUPPORTED,
    "--data-parallel-multi-port-external-lb": UNSUPPORTED,
    "--data-parallel-supervisor-port": UNSUPPORTED,
    "--nnodes": UNSUPPORTED,
    "--node-rank": UNSUPPORTED,
    "--master-addr": UNSUPPORTED,
    "--master-port": UNSUPPORTED,
    "--headless": UNSUPPORTED,
    "--ssl-keyfile": PLAIN_HTTP,
    "--ssl-certfile": PLAIN_HTTP,
    "--grpc": PLAIN_HTTP,
    "--device-ids": "use `placement` with `gpus`",
}
# Without its statistics an engine has no counters, and `verify` cannot prove that KV moved.
STATISTICS = "--disable-log-stats"
# A decoder that keeps prefixes of its own never fetches those chunks, and they stay in its buffer for ever
# (LMCache pd_backend.py, 0.3.10 to 0.5.6).
PREFIX_CACHING = "--enable-prefix-caching"


def decoders_keep_no_prefixes(cluster: Cluster) -> Iterator[Finding]:
    serving = cluster.serving
    if serving.mode != "disaggregated" or serving.connector != "lmcache" or serving.decoders is None:
        return
    for each in given(serving.decoders.extra_args):
        if each.flag == PREFIX_CACHING and each.value.lower() != "false":
            yield Finding(
                "ARG003",
                ("serving", "decoders", "extra_args", each.at),
                "with the lmcache connector decoders run without prefix caching",
                "remove it: transferred chunks would never leave the decoder's buffer",
            )


def pdctls_flags_are_left_alone(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        for each in given(pool.extra_args):
            flag = owner(each)
            if flag is not None:
                yield Finding(
                    "ARG001", (*path, "extra_args", each.at), f"`{flag}` is set by pdctl", OWNED[flag]
                )


def each_word_stands_alone(cluster: Cluster) -> Iterator[Finding]:
    """The engine would take `--seed 1` in one word for the name of a flag."""
    for path, pool in pools(cluster):
        for i, word in enumerate(pool.extra_args):
            name = word.split("=")[0]
            if FLAG.match(name) and len(name.split()) > 1:
                yield Finding(
                    "ARG002",
                    (*path, "extra_args", i),
                    "a flag and its value stand in one word",
                    'write them as two entries, as in ["--seed", "1"], or join them by `=`',
                )


def each_flag_is_given_once(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        first: dict[tuple[str, str], str] = {}
        for each in given(pool.extra_args):
            if each.flag in REPEATED:
                continue
            before = first.setdefault((each.flag, each.key), each.value)
            if read_value(before) != read_value(each.value):
                name = f"{each.flag}.{each.key}" if each.key else each.flag
                yield Finding(
                    "ARG004",
                    (*path, "extra_args", each.at),
                    f"`{name}` is {shown(before)} before and {shown(each.value)} here; the last one counts",
                    "keep one of them",
                )


def statistics_stay_on(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        for each in given(pool.extra_args):
            if each.flag == STATISTICS and each.value.lower() != "false":
                yield Finding(
                    "ARG005",
                    (*path, "extra_args", each.at),
                    f"with `{STATISTICS}` an engine has no counters, so `pdctl verify` cannot see KV move",
                    "remove it",
                )


def owned(word: str) -> str | None:
    """The flag of pdctl's that `word` gives: `--x`, `--x=v`, `--x.key`, `--x_y`, `-x`, or its beginning."""
    return next((flag for each in given([word]) if (flag := owner(each))), None)


def owner(each: Given) -> str | None:
    return next((flag for flag in (each.flag, *each.fits) if flag in OWNED), None)
