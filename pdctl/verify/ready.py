"""The proxy's /ready -> ready, or why not, after giving it the time it needs to see its instances again."""

from __future__ import annotations

import time

from pdctl.errors import UnhealthyError
from pdctl.verify.http import Client

# An instance that was just restarted counts as down until the proxy asks it again (docs/proxy.md: every
# `health.interval_s`, 2 s), and is kept out of rotation for `health.cooldown_s`, 15 s, after failures.
LIMIT_S = 20.0
PAUSE_S = 0.25


def wait_ready(front: Client, limit_s: float = LIMIT_S) -> None:
    """Returns when the proxy is ready. Raises UnhealthyError with its last answer when it is not in time."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            front.get_json("/ready")
            return
        except UnhealthyError as error:
            if time.monotonic() > deadline:
                raise _not_ready(error) from None
        time.sleep(PAUSE_S)


def _not_ready(error: UnhealthyError) -> UnhealthyError:
    return UnhealthyError(
        f"the proxy is not ready: {error.message}",
        where=error.where,
        hint="`pdctl status` shows each instance, `pdctl logs INSTANCE` its last lines",
    )
