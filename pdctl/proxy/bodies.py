"""A client's body -> what each leg is sent. Pure: no body is changed in place, nothing is looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .config import Decoder

Body = dict[str, Any]

LIMITS = ("max_tokens", "max_completion_tokens")
# The prefill's own text is not what the client asked about: vLLM refuses the first without `stream`, the
# others only cost time or make the answer larger.
NOT_FOR_PREFILL = ("stream_options", "logprobs", "top_logprobs", "echo")
NOT_FOR_DRAIN = (*NOT_FOR_PREFILL, "min_tokens", *LIMITS)
# What /tokenize takes beside the prompt (vLLM 0.11.0 protocol.py, TokenizeChatRequest).
FOR_TOKENIZE = (
    "model",
    "prompt",
    "messages",
    "add_special_tokens",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "chat_template_kwargs",
    "tools",
)


def prefill_body(body: Mapping[str, Any], kv_transfer_params: Mapping[str, Any]) -> Body:
    """One token, not streamed. A limit the engine would refuse is left in, so that the engine refuses it."""
    sent = without(body, NOT_FOR_PREFILL)
    if not any(is_refusable(body.get(key)) for key in LIMITS):
        sent["max_tokens"] = 1
        if "max_completion_tokens" in body:
            sent["max_completion_tokens"] = 1
    if is_count(body.get("min_tokens")):
        sent["min_tokens"] = min(body["min_tokens"], 1)  # vLLM refuses min_tokens above max_tokens
    return {**sent, "stream": False, "kv_transfer_params": dict(kv_transfer_params)}


def lmcache_params(request_id: str, decoder: Decoder) -> Body:
    """Where the prefiller's ranks push the KV (LMCache 0.3.10 and 0.5.6, vllm_v1_adapter.py, DisaggSpec)."""
    receiver = {
        "req_id": request_id,
        "receiver_host": decoder.host,
        "receiver_init_port": list(decoder.init_ports),
        "receiver_alloc_port": list(decoder.alloc_ports),
    }
    return {"ret_first_tok": True, "disagg_spec": receiver}


def nixl_params() -> Body:
    """Ask the prefiller to keep the KV for a decoder that will read it (vLLM 0.11.0 nixl_connector.py)."""
    remote = dict.fromkeys(("remote_engine_id", "remote_block_ids", "remote_host", "remote_port"))
    return {"do_remote_decode": True, "do_remote_prefill": False, **remote}


def appended_body(body: Mapping[str, Any], ids: Sequence[int], first_token: int) -> Body:
    """Go on behind the prefill's token: it is part of the prompt now, not of what is left to do."""
    sent = {**body, "prompt": [*ids, first_token]}
    for key in (*LIMITS, "min_tokens"):
        if is_count(body.get(key)):
            sent[key] = max(body[key] - 1, 0 if key == "min_tokens" else 1)
    return sent


def drain_body(body: Mapping[str, Any]) -> Body:
    """The cheapest request that makes the decoder fetch, and so free, the KV of this prompt."""
    return {**without(body, NOT_FOR_DRAIN), "stream": False, "max_tokens": 1}


def streamed_body(body: Mapping[str, Any]) -> Body:
    """Stream what the client wants in one piece: the first event tells that the KV was fetched."""
    return {**body, "stream": True, "stream_options": {"include_usage": True}}


def tokenize_body(body: Mapping[str, Any]) -> Body:
    return {key: body[key] for key in FOR_TOKENIZE if key in body}


def token_limit(body: Mapping[str, Any]) -> int | None:
    """How many tokens the client allows; vLLM's own order where both are given."""
    for key in reversed(LIMITS):
        if is_count(body.get(key)):
            return int(body[key])
    return None


def single_prompt(prompt: Any) -> Any:
    """A list that holds one prompt is that prompt."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        return prompt[0]
    return prompt


def token_ids(prompt: Any) -> list[int] | None:
    if isinstance(prompt, list) and all(is_count(item) for item in prompt):
        return prompt
    return None


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_refusable(value: Any) -> bool:
    """Set, but no limit an engine accepts (0, negative, not a number): it says so before any KV moves."""
    return value is not None and not (is_count(value) and value > 0)


def without(body: Mapping[str, Any], keys: Sequence[str]) -> Body:
    return {key: value for key, value in body.items() if key not in keys}
