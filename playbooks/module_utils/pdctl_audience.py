"""Whether anybody still waits for what this module will say: its controller may have been killed."""

from __future__ import annotations

import select

from ansible.module_utils.pdctl_difference import Problem

STDOUT = 1


def stay_for_audience() -> None:
    """Raises once nobody reads this process any more: who waits on would only stand in the next run's way.

    Worse, who still waits for its turn would carry out an old request after a newer one.
    """
    if is_unheard():
        raise Problem("the controller has left; what was done is recorded")


def is_unheard(descriptor: int = STDOUT) -> bool:
    """poll(2): without asking for anything, a pipe without a reader is an error, a socket hung up."""
    poller = select.poll()
    poller.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))
