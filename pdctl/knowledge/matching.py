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
    any_case: bool = False  # vLLM takes it in capital letters, however it is written (config/attention.py)

    @property
    def name(self) -> str:
        return self.flag or self.env


FORM = "MATCH004"  # the bytes of the KV cache mean something else
ORIGIN = "MATCH005"  # the KV cache is another's: computed otherwise, or from other tokens
ANSWER = "MATCH008"  # the KV fits, but one side refuses the request, or writes its token otherwise

# Flags: vLLM 0.11.0 to 0.33.0, engine/arg_utils.py and cli_args.py. Variables: envs.py.
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
    Setting(FORM, "--cp-kv-cache-interleave-size"),
    Setting(FORM, "--dcp-kv-cache-interleave-size"),
    Setting(FORM, "--mamba-cache-mode"),
    Setting(FORM, "--swa-bounded-replay"),
    Setting(FORM, "--model-class-overrides"),
    Setting(FORM, "--config-format", default="auto"),
    Setting(FORM, env="VLLM_KV_CACHE_LAYOUT"),
    Setting(FORM, env="VLLM_MLA_DISABLE"),
    Setting(ORIGIN, "--attention-backend", env="VLLM_ATTENTION_BACKEND", any_case=True),
    Setting(ORIGIN, "--attention-config"),
    Setting(ORIGIN, "--quantization"),
    Setting(ORIGIN, "--quantization-config"),
    Setting(ORIGIN, "--kv-sharing-fast-prefill"),
    Setting(ORIGIN, "--speculative-config"),
    Setting(ORIGIN, "--spec-method"),
    Setting(ORIGIN, "--spec-model"),
    Setting(ORIGIN, "--spec-tokens"),
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
    Setting(ORIGIN, "--max-lora-rank", default="16"),
    Setting(ORIGIN, "--lora-dtype", default="auto"),
    Setting(ORIGIN, "--lora-target-modules"),
    Setting(ORIGIN, "--default-mm-loras"),
    Setting(ORIGIN, "--limit-mm-per-prompt"),
    Setting(ORIGIN, "--mm-processor-kwargs"),
    Setting(ORIGIN, "--media-io-kwargs"),
    Setting(ORIGIN, "--video-pruning-rate"),
    Setting(ORIGIN, "--video-pruning-method"),
    Setting(ORIGIN, "--language-model-only"),
    Setting(ANSWER, "--generation-config", default="auto"),
    Setting(ANSWER, "--override-generation-config"),
    # A prefiller without them refuses requests that its decoder takes (entrypoints/openai, 400).
    Setting(ANSWER, "--enable-auto-tool-choice"),
    Setting(ANSWER, "--tool-call-parser"),
    Setting(ANSWER, "--reasoning-parser"),
    Setting(ANSWER, "--trust-request-chat-template"),
    Setting(ANSWER, "--enable-prompt-embeds"),
    Setting(ANSWER, "--max-logprobs", default="20"),
)
# A flag whose field says the same as another flag (vLLM config/attention.py).
SAME_FIELD = {("--attention-config", "backend"): "--attention-backend"}

# LMCache takes any key of its file from LMCACHE_<KEY>, and the variable wins without a word (v1/config.py).
LMCACHE_PREFIX = "LMCACHE_"
# These change what an instance says or keeps for itself, not what it sends.
LMCACHE_OWN_AFFAIR = frozenset({"LMCACHE_LOG_LEVEL", "LMCACHE_TRACK_USAGE", "LMCACHE_USE_EXPERIMENTAL"})
HASH_ALGORITHM = "LMCACHE_PRE_CACHING_HASH_ALGORITHM"
PYTHONS_OWN_HASH = "builtin"
