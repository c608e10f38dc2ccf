"""What a running proxy says of itself -> its row of the record: what a rollout leaves there is no drift."""

from __future__ import annotations

import os

from ansible.module_utils.pdctl_control import ControlError
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_host_lock import host_lock
from ansible.module_utils.pdctl_journal import MEANWHILE, refuse_if_lost
from ansible.module_utils.pdctl_observe_units import observe_control
from ansible.module_utils.pdctl_record import Record
from ansible.module_utils.pdctl_rows import Row


def remember(request: Row) -> None:
    """Only the record is written, and only if it knows the proxy as one that can be asked; not by a worker
    whose cluster is another's to change by now."""
    try:
        said = observe_control(request["control"])
    except ControlError as error:
        raise Problem(f"who is drained was not recorded: {error}") from None
    if not said["loaded"] or "record" not in request:
        return
    with host_lock():
        if request.get("token"):
            refuse_if_lost(os.path.dirname(request["record"]), request["token"], MEANWHILE)
        record = Record(request["record"], request["cluster"])
        for key, row in record.rows.items():
            if row["kind"] == "unit" and row.get("control") == request["control"]:
                record.rows[key] = dict(row, drained=said["drained"], sides=said["sides"])
        if not record.is_unchanged():
            record.write()
