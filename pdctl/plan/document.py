"""The plan as JSON: the documented, versioned form that `--json` prints and the screen is drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pdctl.plan.belonging import instance_of_key, layer_of
from pdctl.plan.effects import Effect
from pdctl.plan.estimate import Estimate, Estimates
from pdctl.plan.foreign import Foreign
from pdctl.plan.model import Change, Drift, Plan, Reboots, Restart, Step, StepKind
from pdctl.plan.radius import Radius
from pdctl.plan.reasons import Reason, Reasons
from pdctl.plan.targets import Pulled, Selection
from pdctl.state import Key

FORMAT = "pdctl-plan/2"
DRIFT_FORMAT = "pdctl-drift/1"
ACTION_NAME = {"+": "create", "~": "update", "-": "delete", "=": "forget"}


@dataclass(frozen=True)
class Details:
    """What is told beside the plan itself; all of it follows from it and from what was seen.

    `since` says what the changed fields are counted from: `generation 7`; `goal` what the hosts are brought
    to, where that is not what the spec says: `generation 3`, or `nothing`.
    """

    reasons: Reasons = field(default_factory=lambda: Reasons({}))
    estimates: Estimates = field(default_factory=lambda: Estimates({}, {}, Estimate()))
    radius: Radius | None = None
    effects: tuple[Effect, ...] = ()
    foreign: tuple[Foreign, ...] = ()
    selection: Selection | None = None
    since: str = ""
    goal: str = ""

    @property
    def waits(self) -> bool:
        """Whether a host is not in order before it has been rebooted."""
        return any(row.kind == "reboot" for row in self.foreign)


def plan_document(plan: Plan, details: Details | None = None) -> dict[str, Any]:
    """See docs/plan.md for the fields; a change of meaning changes `format`."""
    told = details or Details()
    steps = {key: step.name for step in reversed(plan.steps) for key in step.keys}
    rows = _Rows(plan.cluster, told.reasons)
    restarts = {Key(r.host, f"unit:{r.unit}"): r.instance for r in plan.restarts}
    return {
        "format": FORMAT,
        "cluster": plan.cluster,
        "empty": plan.empty and not told.waits and not plan.reboots.needs,
        "since": told.since,
        "goal": told.goal or "its spec",
        "targets": _targets(told.selection),
        "fields": [rows.reason(r) | {"idle": r in told.reasons.idle} for r in told.reasons.fields],
        "changes": [_change(c, rows, steps.get(c.key)) for c in plan.changes],
        "drift": [_drift(d, rows) for d in plan.drift],
        "foreign": [_foreign(row) for row in told.foreign],
        "restarts": [_restart(r, rows) for r in plan.restarts],
        "steps": [_step(step, restarts, told.estimates) for step in plan.steps],
        "effects": [
            {"host": e.host, "path": e.path, "command": e.command, "owed": e.owed} for e in told.effects
        ],
        "reboots": _reboots(plan.reboots),
        "radius": _radius(told.radius, told.estimates.total) if told.radius else None,
        "unreachable": dict(plan.unreachable),
    }


def drift_document(plan: Plan, details: Details) -> dict[str, Any]:
    """Only what changed outside pdctl, and what is not pdctl's own."""
    rows = _Rows(plan.cluster, details.reasons)
    return {
        "format": DRIFT_FORMAT,
        "cluster": plan.cluster,
        "empty": not plan.drift and not details.foreign,
        "drift": [_drift(d, rows) for d in plan.drift],
        "foreign": [_foreign(row) for row in details.foreign],
        "unreachable": dict(plan.unreachable),
    }


class _Rows:
    """Reasons as JSON, each made once: a thousand hosts have the same few."""

    def __init__(self, cluster: str, reasons: Reasons) -> None:
        self.cluster = cluster
        self.reasons = reasons
        self._made: dict[Reason, dict[str, Any]] = {}

    def instance(self, key: Key) -> str:
        return instance_of_key(self.cluster, key)

    def reason(self, reason: Reason) -> dict[str, Any]:
        if reason not in self._made:
            self._made[reason] = {"text": reason.text, "field": reason.field, "where": reason.where}
        return self._made[reason]

    def of(self, key: Key) -> list[dict[str, Any]]:
        return [self.reason(reason) for reason in self.reasons.by_key.get(key, ())]


def _change(change: Change, rows: _Rows, step: str | None) -> dict[str, Any]:
    return {
        "host": change.key.host,
        "id": change.key.id,
        "instance": rows.instance(change.key),
        "layer": layer_of(change.key).value,
        "action": ACTION_NAME[change.action.value],
        "why": list(change.why),
        "reasons": rows.of(change.key),
        "drift": change.drift,
        "step": step,
        "diff": list(change.text),
    }


def _drift(drift: Drift, rows: _Rows) -> dict[str, Any]:
    key = drift.key
    return {
        "host": key.host,
        "id": key.id,
        "instance": rows.instance(key),
        "what": list(drift.what),
        "unproven": drift.unproven,
    }


def _foreign(row: Foreign) -> dict[str, Any]:
    return {
        "host": row.host,
        "kind": row.kind,
        "subject": row.subject,
        "instance": row.instance,
        "pid": row.pid or None,
        "what": row.what,
    }


def _reboots(told: Reboots) -> list[dict[str, Any]]:
    return [
        {
            "host": need.host,
            "package": need.package,
            "change": need.change,
            "why": need.why,
            "now": need.host in told.hosts,
            "refused": told.refused.get(need.host, ""),
        }
        for need in told.needs
    ]


def _restart(restart: Restart, rows: _Rows) -> dict[str, Any]:
    return {
        "host": restart.host,
        "unit": restart.unit,
        "instance": restart.instance,
        "causes": list(restart.causes),
        "reasons": rows.of(Key(restart.host, f"unit:{restart.unit}")),
    }


def _step(step: Step, restarts: Mapping[Key, str], estimates: Estimates) -> dict[str, Any]:
    return {
        "name": step.name,
        "title": step.title,
        "kind": step.kind.value,
        "resources": [{"host": key.host, "id": key.id} for key in step.keys],
        "restarts": [restarts[key] for key in step.keys if key in restarts and step.kind == StepKind.UNITS],
        "drain": list(step.drain),
        "undrain": list(step.undrain),
        "reboots": list(step.hosts),
        "apart": None if step.sides is None else len(step.sides),
        "outage": step.outage,
        **_time(estimates.steps.get(step.name)),
    }


def _time(estimate: Estimate | None) -> dict[str, Any]:
    if estimate is None:
        return {"seconds": None, "at_most_s": None, "time": ""}
    return {
        "seconds": round(estimate.seconds, 1),
        "at_most_s": round(estimate.at_most, 1),
        "time": estimate.text,
    }


def _radius(radius: Radius, total: Estimate) -> dict[str, Any]:
    return {
        "touched": {role: list(names) for role, names in radius.touched.items()},
        "total": dict(radius.total),
        "adds": list(radius.adds),
        "removes": list(radius.removes),
        "starts": list(radius.starts),
        "restarts": [{"host": host, "instance": instance} for host, instance in radius.restarts],
        "reloads": list(radius.reloads),
        "drains": list(radius.drains),
        "serving": list(radius.serving),
        "outages": list(radius.outages),
        "reboots": list(radius.reboots),
        **_time(total),
        "text": radius.text(total),
    }


def _targets(selection: Selection | None) -> Mapping[str, Any] | None:
    if selection is None:
        return None
    asked = selection.targets
    return {
        "hosts": list(asked.hosts),
        "roles": list(asked.roles),
        "instances": list(asked.instances),
        "layers": list(asked.layers),
        "text": str(asked),
        "pulled": [_pulled(each) for each in selection.pulled],
        "held": [_pulled(each) for each in selection.held],
    }


def _pulled(pulled: Pulled) -> dict[str, Any]:
    return {
        "host": pulled.host,
        "instance": pulled.instance,
        "because": pulled.because,
        "ids": sorted({key.id for key in pulled.keys}),
    }
