"""A client's body -> the field that prefill on one engine and decode on another cannot honour, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .config import Config

ORIGINAL, APPEND, NIXL = "original", "append-first-token", "nixl"
ALL = (ORIGINAL, APPEND, NIXL)

Asked = Callable[[Any], bool]


@dataclass(frozen=True)
class Rule:
    field: str
    legs: tuple[str, ...]
    asked: Asked
    reason: str


def present(value: Any) -> bool:
    return value is not None and value is not False


def above_one(value: Any) -> bool:
    """Also "2" and 2.0, which engines read as 2; what is below 1 the engine refuses itself."""
    return value is not None and value != 1 and not (type(value) is int and value < 1)


def no_int(value: Any) -> bool:
    return value is not None and type(value) is not int


def no_bool(value: Any) -> bool:
    return value is not None and type(value) is not bool


def several(prompt: Any) -> bool:
    return (
        isinstance(prompt, list) and len(prompt) > 1 and any(isinstance(item, (str, list)) for item in prompt)
    )


def structured(response_format: Any) -> bool:
    return isinstance(response_format, dict) and response_format.get("type") != "text"


ONE_KV = "the KV of a prompt is moved once and for one sequence"
FIRST_APART = "the first token comes from the prefiller, the others from the decoder"
GRAMMAR_APART = f"{FIRST_APART}, which would begin the grammar anew"
RULES = (
    Rule("max_tokens", ALL, no_int, "must be a whole number"),
    Rule("max_completion_tokens", ALL, no_int, "must be a whole number"),
    Rule("min_tokens", ALL, no_int, "must be a whole number"),
    Rule("stream", ALL, no_bool, "must be true or false"),
    Rule("kv_transfer_params", ALL, present, "the proxy decides where KV goes"),
    Rule("prompt", ALL, several, "a batch of prompts needs a KV transfer each; send one request per prompt"),
    Rule("prompt_embeds", ALL, present, "KV is found by token ids, embeddings have none"),
    Rule("n", ALL, above_one, ONE_KV),
    Rule("best_of", ALL, above_one, ONE_KV),
    Rule("use_beam_search", ALL, present, ONE_KV),
    Rule("prompt_logprobs", ALL, present, "the decoder does not compute the prompt"),
    Rule("logprobs", (APPEND,), present, FIRST_APART),
    Rule("echo", (APPEND,), present, f"{FIRST_APART}, whose prompt is not the client's"),
    Rule("truncate_prompt_tokens", (APPEND,), present, "the decoder's prompt is one token longer"),
    Rule("response_format", (APPEND,), structured, GRAMMAR_APART),
    Rule("structured_outputs", (APPEND,), present, GRAMMAR_APART),
    Rule("guided_json", (APPEND,), present, GRAMMAR_APART),
    Rule("guided_regex", (APPEND,), present, GRAMMAR_APART),
    Rule("guided_choice", (APPEND,), present, GRAMMAR_APART),
    Rule("guided_grammar", (APPEND,), present, GRAMMAR_APART),
)


def refused_field(body: Mapping[str, Any], leg: str) -> tuple[str, str] | None:
    """The field and the reason; None when every field can be honoured on this kind of decode leg."""
    for rule in RULES:
        if leg in rule.legs and rule.asked(body.get(rule.field)):
            return rule.field, rule.reason
    if body.get("echo") and present(body.get("logprobs")):
        return "logprobs", "with `echo` they cover the prompt, which the decoder does not compute"
    return None


def refused_chat(config: Config) -> str | None:
    """Why chat is not served here; None when it is."""
    if config.mode == "aggregated" or config.chat:
        return None
    if config.lmcache:
        return (
            "chat is not served over LMCache: each engine renders a chat prompt on its own, and that both "
            "render it alike to the last token is not proven; use /v1/completions, or connector nixl"
        )
    return "chat is turned off in this proxy's configuration"
