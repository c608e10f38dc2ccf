"""What a test asks the simulated engine to do wrong: from `PDCTL_SIMULATOR` at start, later over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .errors import Refused


@dataclass(frozen=True)
class Faults:
    """One field for each fault."""

    die: bool = False  # the engine dies as after an EngineDeadError: exit code 1
    hang: bool = False  # no step ever ends; /health stays 200, as with a worker blocked in a transfer
    slow: float = 1.0  # steps and transfers take so many times as long
    refuse_kv: bool = False  # no KV is taken in (LMCache) or handed out (NIXL)
    fail_prefill: int = 0  # the next so many requests end in HTTP 500
    corrupt_kv: bool = (
        False  # KV this instance sends or fetches is garbled: the text differs, counters do not
    )
    unhealthy: bool = False  # /health answers 503


class FaultSwitch:
    """The faults in force."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.now = Faults()
        self.dead: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._running = asyncio.Event()
        self.set(given)

    def set(self, given: Mapping[str, Any]) -> None:
        """Turn on or off what `given` names; the rest stays as it is."""
        merged = {entry.name: getattr(self.now, entry.name) for entry in fields(Faults)}
        for name, value in given.items():
            if name not in merged:
                raise Refused(f"unknown fault {name!r}; known: {', '.join(merged)}")
            _check(name, value, type(getattr(Faults(), name)))
        self.now = Faults(**{**merged, **given})
        if self.now.hang:
            self._running.clear()
        else:
            self._running.set()
        if self.now.die:
            self.kill("told to die")

    def kill(self, reason: str) -> None:
        """Let the process end as a dead engine does."""
        if not self.dead.done():
            self.dead.set_result(reason)

    async def not_hung(self) -> None:
        """Wait while the fault `hang` is on."""
        await self._running.wait()

    def fails_prefill(self) -> bool:
        """Whether this request is one of those that must fail; counts it."""
        left = self.now.fail_prefill
        if left > 0:
            self.set({"fail_prefill": left - 1})
        return left > 0


def _check(name: str, value: object, kind: type) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is bool and isinstance(value, bool):
        return
    if kind is float and number and value > 0:  # type: ignore[operator]
        return
    if kind is int and number and isinstance(value, int) and value >= 0:
        return
    raise Refused(f"fault {name!r} cannot be {value!r}")
