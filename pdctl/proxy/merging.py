"""Answers of two legs, or many chunks of one -> the one answer the client asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import sse

Json = dict[str, Any]

APPENDED_LISTS = ("token_ids",)


def merged(chunks: Iterable[Mapping[str, Any]]) -> Json:
    """A completion in one piece from the chunks of its stream."""
    answer: Json = {}
    choice: Json = {"index": 0, "text": "", "logprobs": None, "finish_reason": None}
    for chunk in chunks:
        answer.update({key: value for key, value in chunk.items() if key != "choices" and value is not None})
        for part in chunk.get("choices") or ():
            choice = joined(choice, part)
    return {**answer, "choices": [choice]}


def joined(choice: Json, part: Mapping[str, Any]) -> Json:
    result = {**choice, **{key: value for key, value in part.items() if value is not None}}
    result["text"] = choice["text"] + (part.get("text") or "")
    result["logprobs"] = joined_logprobs(choice.get("logprobs"), part.get("logprobs"))
    for key in APPENDED_LISTS:
        if choice.get(key) is not None and part.get(key) is not None:
            result[key] = [*choice[key], *part[key]]
    return result


def joined_logprobs(before: Json | None, part: Mapping[str, Any] | None) -> Json | None:
    """Four lists of equal length, one entry a token (tokens, token_logprobs, top_logprobs, text_offset)."""
    if before is None or part is None:
        return dict(part) if part is not None else before
    return {key: [*(before.get(key) or ()), *(value or ())] for key, value in part.items()}


def with_first(answer: Json, text: str) -> Json:
    """The decoder's whole answer, with the prefill's token in front."""
    first, *others = answer["choices"]
    result = {**answer, "choices": [{**first, "text": text + (first.get("text") or "")}, *others]}
    if answer.get("usage"):
        result["usage"] = counted_from_prompt(answer["usage"])
    return result


def counted_from_prompt(usage: Json) -> Json:
    """The first token belongs to the completion, though the decoder got it as the end of its prompt."""
    steps = {"prompt_tokens": -1, "completion_tokens": 1}
    return {**usage, **{key: usage[key] + step for key, step in steps.items() if type(usage.get(key)) is int}}


def usage_event(event: bytes) -> bytes:
    """An event of the decoder's stream, with its usage counted from the client's prompt."""
    if b'"usage"' not in event:
        return event
    chunk = sse.document(event)
    usage = chunk.get("usage")
    return sse.encode({**chunk, "usage": counted_from_prompt(usage)}) if usage else event


def own_answer(prefill: Json) -> Json:
    """The prefill's answer as the client may see it."""
    return {key: value for key, value in prefill.items() if key != "kv_transfer_params"}


def first_chunk(prefill: Json, *, last: bool, usage: bool) -> Json:
    """The prefill's token as the first chunk of a stream; it carries an end only if the stream ends there."""
    choice = prefill["choices"][0]
    end = {key: choice.get(key) if last else None for key in ("finish_reason", "stop_reason")}
    chunk: Json = {key: prefill[key] for key in ("id", "object", "created", "model") if key in prefill}
    chunk["choices"] = [{"index": 0, "text": choice.get("text") or "", "logprobs": None, **end}]
    if usage:
        chunk["usage"] = prefill.get("usage")
    return chunk


def own_stream(prefill: Json, options: Mapping[str, Any]) -> bytes:
    """The prefill's answer as a whole stream: its token, its usage if asked for, the end."""
    events = sse.encode(first_chunk(prefill, last=True, usage=bool(options.get("continuous_usage_stats"))))
    if options.get("include_usage"):
        tail = {**first_chunk(prefill, last=True, usage=True), "choices": []}
        events += sse.encode(tail)
    return events + sse.DONE
