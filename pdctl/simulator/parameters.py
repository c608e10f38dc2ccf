"""`PDCTL_SIMULATOR` (JSON) -> Parameters: how fast the simulated engine is and which versions it imitates."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import StartError


@dataclass(frozen=True)
class Parameters:
    """Every parameter, with its default. None of the speeds was measured on any hardware."""

    prefill_tokens_per_s: float = 20_000.0
    itl_ms: float = 5.0  # one decode step with a single request
    batch_growth: float = 0.01  # share of itl_ms that each further request in the step adds
    jitter: float = 0.0  # step times vary uniformly by this share
    kv_gib_per_s: float = 10.0
    bytes_per_token: int | None = None  # KV of one token at one rank; unknown: no exact-multiple check
    kv_cache_tokens: int = 1_048_576
    eos_every: int = 256  # one generated token in so many ends the text
    start_s: float = 0.0
    stale_peers: bool = False  # true: a receiver's agent is asked for once for ever, as LMCache does
    handshake_timeout_s: float = 5.0  # vLLM 0.11.0 nixl_connector.py: RCVTIMEO of the side channel
    vllm_version: str = "0.32.0"
    lmcache_version: str = "0.5.6"
    allow_faults: bool = False  # else POST /pdctl/faults is answered on loopback only
    faults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kv_bytes_per_token(self) -> int:
        """The given figure, or a nominal one: gpt-oss-120b in bf16: 36 layers x 2 x 8 heads x 64 x 2."""
        return self.bytes_per_token or 36 * 2 * 8 * 64 * 2


def parse_parameters(text: str | None) -> Parameters:
    """The parameters in `text`; unknown keys and wrong types are refused, since a typo would go unnoticed."""
    if not text:
        return Parameters()
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise StartError(f"PDCTL_SIMULATOR is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise StartError("PDCTL_SIMULATOR must be a JSON object")
    known = {entry.name for entry in dataclasses.fields(Parameters)}
    if unknown := sorted(set(given) - known):
        raise StartError(f"PDCTL_SIMULATOR: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return Parameters(**{key: _checked(key, value) for key, value in given.items()})


def version(text: str) -> tuple[int, ...]:
    """`0.3.10.post1` -> (0, 3, 10), to be compared with another."""
    parts = []
    for part in text.split("+")[0].split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)


_TEXT = {"vllm_version", "lmcache_version"}
_MAY_BE_ZERO = {"itl_ms", "batch_growth", "jitter", "start_s"}
_WHOLE = {"bytes_per_token", "kv_cache_tokens", "eos_every"}


def _checked(key: str, value: Any) -> Any:
    if key in _TEXT:
        if not isinstance(value, str) or not version(value):
            raise StartError(f"PDCTL_SIMULATOR: {key} must be text like '0.5.6', got {value!r}")
    elif key == "faults":
        if not isinstance(value, dict):
            raise StartError(f"PDCTL_SIMULATOR: faults must be an object, got {value!r}")
    elif isinstance(getattr(Parameters, key, None), bool):  # the default says that it is a switch
        if not isinstance(value, bool):
            raise StartError(f"PDCTL_SIMULATOR: {key} must be true or false, got {value!r}")
    elif isinstance(value, bool) or not isinstance(value, int if key in _WHOLE else (int, float)):
        raise StartError(
            f"PDCTL_SIMULATOR: {key} must be a {'whole ' * (key in _WHOLE)}number, got {value!r}"
        )
    elif value < 0 or (value == 0 and key not in _MAY_BE_ZERO):
        raise StartError(f"PDCTL_SIMULATOR: {key} is too small: {value}")
    elif key == "jitter" and value > 1:
        raise StartError(f"PDCTL_SIMULATOR: jitter is a share between 0 and 1, got {value}")
    return value
