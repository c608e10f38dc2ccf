"""argv of `vllm serve` -> Arguments; what vLLM would refuse is refused, with the same exit code 2."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import StartError
from .parameters import version


@dataclass(frozen=True)
class Arguments:
    """The part of the command line that the simulator acts on."""

    model: str
    served_names: tuple[str, ...]
    host: str
    port: int
    ranks: int  # tensor times pipeline parallel
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    prefix_caching: bool
    kv_dtype: str
    seed: int
    api_key: str | None
    kv_transfer: Mapping[str, Any] | None


def parse_arguments(argv: Sequence[str], vllm_version: str) -> Arguments:
    """The arguments of `serve MODEL ...`; SystemExit(2) on a flag that this vLLM version does not have."""
    parser = _parser(vllm_version)
    command, *rest = [_dashed(word) for word in argv] or [""]
    if command in ("-h", "--help"):
        parser.print_help()
        raise SystemExit(0)
    if command != "serve":
        parser.error(f"expected `serve MODEL`, got {command!r}")
    found = parser.parse_args(rest)
    return Arguments(
        model=found.model,
        served_names=tuple(found.served_model_name or [found.model]),
        host=found.host or "0.0.0.0",
        port=found.port,
        ranks=found.tensor_parallel_size * found.pipeline_parallel_size,
        max_model_len=found.max_model_len,
        max_num_seqs=found.max_num_seqs,
        max_num_batched_tokens=found.max_num_batched_tokens,
        block_size=found.block_size,
        prefix_caching=found.enable_prefix_caching,
        kv_dtype=found.dtype if found.kv_cache_dtype == "auto" else found.kv_cache_dtype,
        seed=found.seed,
        api_key=found.api_key,
        kv_transfer=found.kv_transfer_config,
    )


def check_arguments(arguments: Arguments, environ: Mapping[str, str], kv_cache_tokens: int) -> None:
    """Raise StartError on values that each parse but do not go together (vLLM: ValueError, exit code 1)."""
    if arguments.max_num_batched_tokens < arguments.max_num_seqs:
        raise StartError(
            f"ValueError: max_num_batched_tokens ({arguments.max_num_batched_tokens}) must be greater than "
            f"or equal to max_num_seqs ({arguments.max_num_seqs})"
        )
    if arguments.max_model_len > kv_cache_tokens:
        raise StartError(
            f"ValueError: max seq len ({arguments.max_model_len}) is larger than the KV cache "
            f"({kv_cache_tokens} tokens): raise kv_cache_tokens in PDCTL_SIMULATOR or lower --max-model-len"
        )
    devices = environ.get("CUDA_VISIBLE_DEVICES")
    if devices and len(devices.split(",")) < arguments.ranks:
        raise StartError(
            f"ValueError: world size ({arguments.ranks}) is larger than the number of GPUs in "
            f"CUDA_VISIBLE_DEVICES={devices}"
        )


# Acted on. The defaults are vLLM's, or a plain figure where vLLM takes them from the model or the GPU.
_NUMBERS = {
    "--port": 8000,
    "--max-model-len": 131_072,  # vLLM: the model's own; this is gpt-oss's
    "--max-num-seqs": 256,
    "--max-num-batched-tokens": 8192,  # vLLM 0.11.0's default for `serve` on an H100
    "--block-size": 16,
    "--seed": 0,
}

# Taken as vLLM takes them, without effect here.
_IGNORED_VALUES = (
    "--gpu-memory-utilization",
    "--data-parallel-size",
    "--quantization",
    "--load-format",
    "--revision",
    "--tokenizer",
    "--tokenizer-mode",
    "--hf-config-path",
    "--hf-overrides",
    "--download-dir",
    "--generation-config",
    "--override-generation-config",
    "--chat-template",
    "--reasoning-parser",
    "--tool-call-parser",
    "--kv-cache-memory-bytes",
    "--num-gpu-blocks-override",
    "--swap-space",
    "--cpu-offload-gb",
    "--attention-backend",
    "--speculative-config",
    "--compilation-config",
    "--additional-config",
    "--distributed-executor-backend",
    "--max-logprobs",
    "--max-seq-len-to-capture",
    "--max-cudagraph-capture-size",
    "--scheduling-policy",
    "--uvicorn-log-level",
    "--root-path",
    "--response-role",
)
_IGNORED_SWITCHES = (
    "--enforce-eager",
    "--trust-remote-code",
    "--enable-chunked-prefill",
    "--enable-log-requests",
    "--enable-auto-tool-choice",
    "--enable-server-load-tracking",
    "--enable-prompt-tokens-details",
    "--enable-expert-parallel",
    "--enable-sleep-mode",
    "--async-scheduling",
    "--disable-log-stats",
    "--disable-uvicorn-access-log",
    "--disable-hybrid-kv-cache-manager",
    "--disable-custom-all-reduce",
    "--disable-cascade-attn",
    "--skip-tokenizer-init",
)
_GONE = {"--disable-log-requests": "0.33"}  # accepted, though deprecated, in 0.11.0; not there in 0.33.0


def _parser(vllm_version: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pdctl-simulator serve",
        allow_abbrev=False,
        description="A simulated `vllm serve`: no model is run.",
    )
    parser.add_argument("model")
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--host")
    parser.add_argument("--api-key")
    parser.add_argument("--tensor-parallel-size", "-tp", type=_positive, default=1)
    parser.add_argument("--pipeline-parallel-size", "-pp", type=_positive, default=1)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--kv-cache-dtype", default="auto")
    parser.add_argument("--kv-transfer-config", type=_json_object)
    # vLLM's V1 engine caches prefixes unless told not to.
    parser.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    for flag, default in _NUMBERS.items():
        parser.add_argument(flag, type=int if flag == "--seed" else _positive, default=default)
    for flag in _IGNORED_VALUES:
        parser.add_argument(flag)
    switches = [
        *_IGNORED_SWITCHES,
        *(flag for flag, gone in _GONE.items() if version(vllm_version) < version(gone)),
    ]
    for flag in switches:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction)
    return parser


def _dashed(word: str) -> str:
    """vLLM takes --max_model_len for --max-model-len."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {text!r} ({error})") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"not a JSON object: {text!r}")
    return value
