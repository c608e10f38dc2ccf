"""Outputs of the engine -> the JSON that vLLM's completion endpoints answer with."""

from __future__ import annotations

import time
from typing import Any

from .bodies import Ask
from .sequence import Output, Sequence

FINGERPRINT = "simulated"

Json = dict[str, Any]


def whole(ask: Ask, sequence: Sequence, full_text: str, last: Output) -> Json:
    """The answer to a request without `stream`."""
    reply = _head(ask, "chat.completion" if ask.chat else "text_completion")
    choice: Json = {
        "index": 0,
        "logprobs": None,
        "finish_reason": last.finish,
        "stop_reason": last.stop_reason,
    }
    if ask.chat:
        choice["message"] = {"role": "assistant", "content": full_text}
    else:
        choice["text"] = full_text
    usage = _usage(ask, last.tokens)
    return {**reply, "choices": [choice], "usage": usage, "kv_transfer_params": sequence.answer}


def opening(ask: Ask) -> Json:
    """A chat stream begins with the role."""
    choice = {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }
    return _streamed(ask, [choice], 0)


def part(ask: Ask, output: Output) -> Json:
    """One chunk of a stream."""
    choice: Json = {
        "index": 0,
        "logprobs": None,
        "finish_reason": output.finish,
        "stop_reason": output.stop_reason,
    }
    if ask.chat:
        choice["delta"] = {"content": output.text}
    else:
        choice["text"] = output.text
    return _streamed(ask, [choice], output.tokens)


def closing_usage(ask: Ask, last: Output) -> Json:
    """The chunk that follows the last one when usage was asked for."""
    return {**_streamed(ask, [], last.tokens), "usage": _usage(ask, last.tokens)}


def error(message: str, status: int, kind: str) -> Json:
    """vLLM's error shape."""
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def _head(ask: Ask, kind: str) -> Json:
    return {
        "id": ask.request.id,
        "object": kind,
        "created": int(time.time()),
        "model": ask.model,
        "system_fingerprint": FINGERPRINT,
    }


def _streamed(ask: Ask, choices: list[Json], tokens: int) -> Json:
    reply = {**_head(ask, "chat.completion.chunk" if ask.chat else "text_completion"), "choices": choices}
    return {**reply, "usage": _usage(ask, tokens)} if ask.continuous_usage else reply


def _usage(ask: Ask, tokens: int) -> Json:
    prompt = len(ask.request.prompt)
    return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
