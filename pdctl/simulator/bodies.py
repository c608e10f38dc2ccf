"""The JSON body of a completion request -> Ask, or the error that vLLM would answer with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import text
from .args import Arguments
from .errors import Refused
from .sequence import Request

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Ask:
    """A request and how its answer is wanted."""

    request: Request
    model: str
    chat: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool


def read_ask(body: object, request_id: str, arguments: Arguments, *, chat: bool) -> Ask:
    """What a completion (or chat) request asks for."""
    if not isinstance(body, dict):
        raise Refused("the body must be a JSON object")
    model = check_model(body, arguments)
    _refuse_unsimulated(body)
    prompt = chat_prompt(body) if chat else completion_prompt(body)
    _check_prompt(prompt, arguments.max_model_len)
    stream = _flag(body, "stream")
    options = body.get("stream_options")
    if options is not None and not stream:
        raise Refused("Stream options can only be defined when `stream=True`.")
    options = options if isinstance(options, dict) else {}
    return Ask(
        request=_request(body, request_id, prompt, arguments.max_model_len, chat=chat),
        model=model,
        chat=chat,
        stream=stream,
        include_usage=_flag(options, "include_usage"),
        continuous_usage=_flag(options, "continuous_usage_stats"),
    )


def check_model(body: Body, arguments: Arguments) -> str:
    """The model's name in the answer; vLLM answers 404 to a name it does not serve."""
    model = body.get("model")
    if model is not None and model not in arguments.served_names:
        raise Refused(f"The model `{model}` does not exist.", 404, "NotFoundError")
    return str(model or arguments.served_names[0])


def completion_prompt(body: Body) -> tuple[int, ...]:
    """The token ids of `prompt`: text, a list of ids, or a list with one of these."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return tuple(text.encode(prompt))
    if isinstance(prompt, list) and all(
        isinstance(token, int) and not isinstance(token, bool) for token in prompt
    ):
        return tuple(prompt)
    if isinstance(prompt, list) and len(prompt) > 1 and isinstance(prompt[0], (str, list)):
        raise Refused("the simulator takes one prompt a request")
    raise Refused("`prompt` must be text or a list of token ids")


def chat_prompt(body: Body) -> tuple[int, ...]:
    """The token ids of `messages`, under a chat template of our own."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused("`messages` must be a list of at least one message")
    parts = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refused("each message needs a `role`")
        parts.append(f"<|{message['role']}|>{_content(message.get('content'))}\n")
    return tuple(text.encode("".join(parts) + "<|assistant|>"))


def _content(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") == "text" for part in content
    ):
        return "".join(str(part.get("text", "")) for part in content)
    raise Refused("message content must be text; the simulator takes no images or audio")


def _refuse_unsimulated(body: Body) -> None:
    for key in ("n", "best_of"):
        if _number(body, key, 1) != 1:
            raise Refused(f"{key} > 1 is not simulated")
    for key in ("echo", "logprobs", "prompt_logprobs", "suffix", "tools", "use_beam_search"):
        if body.get(key):
            raise Refused(f"`{key}` is not simulated")


def _check_prompt(prompt: tuple[int, ...], limit: int) -> None:
    if not prompt:
        raise Refused("The prompt must not be empty.")
    if bad := [token for token in prompt if not 0 <= token < text.VOCABULARY]:
        raise Refused(f"Token id {bad[0]} is out of vocabulary")
    if len(prompt) >= limit:
        raise Refused(
            f"This model's maximum context length is {limit} tokens. However, your request has {len(prompt)} "
            "input tokens. Please reduce the length of the input messages."
        )


def _request(body: Body, request_id: str, prompt: tuple[int, ...], limit: int, *, chat: bool) -> Request:
    room = limit - len(prompt)
    # OpenAI's default for completions is 16; a chat answer may fill the context.
    default = room if chat else min(16, room)
    given = body.get("max_completion_tokens") if chat else None
    max_tokens = (
        _number(body, "max_tokens", default) if given is None else _number(body, "max_completion_tokens", 0)
    )
    if max_tokens < 1:
        raise Refused(f"max_tokens must be at least 1, got {max_tokens}.")
    if max_tokens > room:
        raise Refused(
            f"This model's maximum context length is {limit} tokens. However, you requested "
            f"{len(prompt) + max_tokens} tokens ({len(prompt)} in the prompt, {max_tokens} to complete)."
        )
    min_tokens = _number(body, "min_tokens", 0)
    if not 0 <= min_tokens <= max_tokens:
        raise Refused(f"min_tokens must be between 0 and max_tokens={max_tokens}, got {min_tokens}.")
    kv = body.get("kv_transfer_params") or {}
    if not isinstance(kv, dict):
        raise Refused("`kv_transfer_params` must be an object")
    _check_temperature(body.get("temperature"))
    return Request(
        id=request_id,
        prompt=prompt,
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        ignore_eos=_flag(body, "ignore_eos"),
        stop=_stops(body.get("stop")),
        stop_token_ids=tuple(body.get("stop_token_ids") or ()),
        keep_stop=_flag(body, "include_stop_str_in_output"),
        kv=kv,
    )


def _stops(stop: object) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(item, str) for item in stops):
        raise Refused("`stop` must be text or a list of texts")
    if "" in stops:
        raise Refused("stop cannot contain an empty string.")
    return tuple(stops)


def _check_temperature(temperature: object) -> None:
    """Taken and without effect: the simulator is always greedy."""
    if temperature is None:
        return
    if isinstance(temperature, bool) or not isinstance(temperature, (int, float)) or temperature < 0:
        raise Refused(f"temperature must be non-negative, got {temperature}.")


def _number(body: Body, key: str, default: int) -> int:
    value = body.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"`{key}` must be a whole number, got {value!r}")
    return value


def _flag(body: Body, key: str) -> bool:
    value = body.get(key)
    if value is not None and not isinstance(value, bool):
        raise Refused(f"`{key}` must be true or false, got {value!r}")
    return bool(value)
