"""NIXL's progress thread -> one that waits in poll() instead of taking a whole core.

NIXL's Python API fixes the delay at 0 (nixl_cu12/_api.py 1.5.1, `agent_config.pthrDelay = 0`), so its UCX
plugin polls with a timeout of 0: 2.9 s of CPU in 3 s idle. With a delay the thread sleeps in poll(), an event
still wakes it at once: 0.01 s of CPU in 3 s idle. No setting outside the code changes it.
"""

from __future__ import annotations

import os
from typing import Any

DELAY_VARIABLE = "PDCTL_NIXL_PROGRESS_DELAY_US"
DEFAULT_DELAY_US = 5000


def install() -> None:
    """Give every NIXL agent made from now on in this process the delay."""
    from nixl import _api

    bindings = _api.nixlBind
    original = bindings.nixlAgent
    if getattr(original, "by_pdctl", False):
        return
    delay = int(os.environ.get(DELAY_VARIABLE, DEFAULT_DELAY_US))

    def agent(name: str, config: Any) -> Any:
        config.pthrDelay = delay
        return original(name, config)

    agent.by_pdctl = True  # type: ignore[attr-defined]
    bindings.nixlAgent = agent
