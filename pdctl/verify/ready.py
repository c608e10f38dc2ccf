"""The proxy's /ready -> ready, or why not, after giving it the time it needs to see its instances again."""

from __future__ import annotations

import json
import time

from pdctl.errors import UnhealthyError
from pdctl.verify.http import Client, StatusError

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
    out = _out_of_rotation(error.body) if isinstance(error, StatusError) else {}
    why = "; ".join(f"{name} {what}" for name, what in out.items()) or error.message
    logs = f"`pdctl logs {next(iter(out), 'proxy')}` shows why"
    return UnhealthyError(
        f"the proxy is not ready: {why}",
        where=error.where,
        hint=f"`pdctl status` shows each instance, {logs}",
    )


def _out_of_rotation(body: bytes) -> dict[str, str]:
    """Instances that get no requests, by name, with what the proxy says of them (docs/proxy.md)."""
    try:
        rows = json.loads(body)["instances"]
        return {
            str(row["name"]): "is kept out after failed requests" if row["up"] else "is down"
            for row in rows
            if not row["in_rotation"]
        }
    except (ValueError, LookupError, TypeError):
        return {}
