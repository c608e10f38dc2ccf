"""Settings of vLLM and LMCache that prefillers and decoders must share, and the ways in which each is given.

vLLM checks some of them at the first transfer only, by a hash (NixlConnector compatibility page, 0.33.0:
versions, model, weight dtype, KV heads, head size, layers, attention backend, KV dtype, speculation); LMCache
checks none: its keys simply never meet, or the bytes mean something else (vLLM pull request 27274,
SGLang pull request 19398).
"""

from __future__ import annotations

from typing import NamedTuple


class Setting(NamedTuple):
    """`flag` in its long spelling, or `env`, a variable that means the same; `rule` tells a difference."""

    rule: str
    flag: str = ""
    env: str = ""
    default: str = ""  # given or not, the same; empty where it follows from the model

    @property
    def name(self) -> str:
        return self.flag or self.env


FORM = "MATCH004"  # the bytes of the KV cache mean something else
ORIGIN = "MATCH005"  # the KV cache is another's: computed otherwise, or from other tokens
ANSWER = "MATCH008"  # the KV fits, but answers depend on which side wrote the token

# Flags: vLLM 0.11.0 to 0.33.0, engine/arg_utils.py and entrypoints/openai/cli_args.py. Variables: envs.py.
SETTINGS = (
    Setting(FORM, "--kv-cache-dtype", default="auto"),
    Setting(FORM, "--kv-cache-dtype-skip-layers"),
    Setting(FORM, "--calculate-kv-scales"),
    Setting(FORM, "--block-size"),
    Setting(FORM, "--hf-overrides"),
    Setting(FORM, "--hf-config-path"),
    Setting(FORM, "--rope-scaling"),
    Setting(FORM, "--rope-theta"),
    Setting(FORM, "--model-impl", default="auto"),
    Setting(FORM, "--disable-hybrid-kv-cache-manager"),
    Setting(FORM, "--disable-sliding-window"),
    Setting(FORM, "--mamba-cache-dtype", default="auto"),
    Setting(FORM, "--mamba-ssm-cache-dtype", default="auto"),
    Setting(FORM, "--mamba-block-size"),
    Setting(FORM, env="VLLM_KV_CACHE_LAYOUT"),
    Setting(FORM, env="VLLM_MLA_DISABLE"),
    Setting(ORIGIN, "--attention-backend", env="VLLM_ATTENTION_BACKEND"),
    Setting(ORIGIN, "--attention-config"),
    Setting(ORIGIN, "--quantization"),
    Setting(ORIGIN, "--speculative-config"),
    Setting(ORIGIN, "--prefix-caching-hash-algo"),
    Setting(ORIGIN, "--tokenizer"),
    Setting(ORIGIN, "--tokenizer-mode", default="auto"),
    Setting(ORIGIN, "--tokenizer-revision"),
    Setting(ORIGIN, "--code-revision"),
    Setting(ORIGIN, "--chat-template"),
    Setting(ORIGIN, "--chat-template-content-format", default="auto"),
    Setting(ORIGIN, "--default-chat-template-kwargs"),
    Setting(ORIGIN, "--enable-lora"),
    Setting(ORIGIN, "--lora-modules"),
    Setting(ORIGIN, "--max-lora-rank"),
    Setting(ORIGIN, "--limit-mm-per-prompt"),
    Setting(ORIGIN, "--mm-processor-kwargs"),
    Setting(ANSWER, "--generation-config", default="auto"),
    Setting(ANSWER, "--override-generation-config"),
)
# One-letter and short spellings (arg_utils.py).
SHORT_FLAGS = {
    "-q": "--quantization",
    "-sc": "--speculative-config",
    "-ac": "--attention-config",
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dcp": "--decode-context-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
    "-n": "--nnodes",
    "-r": "--node-rank",
}
# A flag whose field says the same as another flag (vLLM config/attention.py).
SAME_FIELD = {("--attention-config", "backend"): "--attention-backend"}

# LMCache takes any key of its file from LMCACHE_<KEY>, and the variable wins without a word (v1/config.py).
LMCACHE_PREFIX = "LMCACHE_"
# These change what an instance says or keeps for itself, not what it sends.
LMCACHE_OWN_AFFAIR = frozenset({"LMCACHE_LOG_LEVEL", "LMCACHE_TRACK_USAGE", "LMCACHE_USE_EXPERIMENTAL"})
HASH_ALGORITHM = "LMCACHE_PRE_CACHING_HASH_ALGORITHM"
PYTHONS_OWN_HASH = "builtin"
