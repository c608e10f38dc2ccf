"""A look -> another one once what a killed apply has begun on the hosts is at its end.

Its modules run on there until their work is done: a plan made meanwhile would not hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from pdctl.apply.lock import Say, is_live
from pdctl.hosts.observation import Kept

PAUSE_S = 0.5
LIMIT_S = 900.0  # as long as modules wait for each other (playbooks/module_utils/pdctl_host_lock.py)

Seen = TypeVar("Seen")


def when_quiet(look: Callable[[], Seen], kept: Callable[[Seen], Mapping[str, Kept]], say: Say) -> Seen:
    """Look again as long as somebody is at work on a host and nobody holds the lock who might be."""
    seen = look()
    busy = _at_work(kept(seen))
    if busy:
        say(f"{', '.join(busy)}: what an earlier apply has begun there is not at its end yet; waiting for it")
    deadline = time.monotonic() + LIMIT_S
    while _at_work(kept(seen)) and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
        seen = look()
    return seen


def _at_work(found: Mapping[str, Kept]) -> list[str]:
    return [] if is_live(found) else sorted(host for host, kept in found.items() if kept.busy)
