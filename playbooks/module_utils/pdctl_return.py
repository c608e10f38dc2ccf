"""request -> what a proxy says that listens, or that systemd brings back: a killed one is no absent one."""

from __future__ import annotations

import os
import time

from ansible.module_utils.pdctl_audience import stay_for_audience
from ansible.module_utils.pdctl_control import AbsentError, proxy_state
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_journal import MEANWHILE, refuse_if_lost
from ansible.module_utils.pdctl_observe_units import State, activity, unit_states
from ansible.module_utils.pdctl_rows import Row

RETURN_S = (
    60.0  # RestartSec=10 of its unit, a few seconds to start on a busy host, and room for a second crash
)
PAUSE_S = 0.3
NEXT = (
    "Nothing was drained, and nothing more was restarted. See `journalctl -u {unit}` there and run the "
    "same command again once it listens; where engines may restart undrained, `systemctl stop {unit}` first"
)


def returned_state(request: Row, start_s: float) -> Row:
    """`start_s` is for any process to listen. AbsentError: none is to come; Problem: one is, and does not."""
    unit = f"pdctl-{request['cluster']}-proxy.service"
    begun = time.monotonic()
    while True:
        try:
            return proxy_state(request["control"], start_s)
        except AbsentError as error:
            state = unit_states([unit]).get(unit, {})
            if not comes(state):
                raise
            waited_s = time.monotonic() - begun
            if waited_s > RETURN_S:
                raise Problem(
                    f"the proxy has not come back for {RETURN_S:g} s: {unit} is {activity(state)}, "
                    f"and {error}. " + NEXT.format(unit=unit)
                ) from None
        stay(request)
        time.sleep(PAUSE_S)
        start_s = 0.0


def comes(state: State) -> bool:
    """Whether systemd runs the unit, is about to, or has a job for it; one that failed for good is not
    started again. That it is disabled says nothing of now, only of the next boot."""
    if not state or state["LoadState"] in ("not-found", "masked"):
        return bool(state) and int(state.get("MainPID") or 0) > 0
    resting = state["ActiveState"] in ("inactive", "failed")
    return not resting or state.get("Job", "") not in ("", "0")


def stay(request: Row) -> None:
    """Raises once the controller has gone or the lock is another's: what is waited for is theirs then."""
    stay_for_audience()
    if request.get("token"):
        refuse_if_lost(os.path.dirname(request["record"]), request["token"], MEANWHILE)
