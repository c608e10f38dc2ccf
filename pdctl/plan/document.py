"""The plan as JSON: the documented, versioned form that `--json` prints and the screen is drawn from."""

from __future__ import annotations

from typing import Any

from pdctl.plan.model import Change, Drift, Plan, Restart

FORMAT = "pdctl-plan/1"
ACTION_NAME = {"+": "create", "~": "update", "-": "delete", "=": "forget"}


def plan_document(plan: Plan) -> dict[str, Any]:
    """See docs/plan.md for the fields; a change of meaning changes `format`."""
    return {
        "format": FORMAT,
        "cluster": plan.cluster,
        "empty": plan.empty,
        "changes": [_change(c) for c in plan.changes],
        "drift": [_drift(d) for d in plan.drift],
        "restarts": [_restart(r) for r in plan.restarts],
        "steps": [
            {"name": s.name, "title": s.title, "resources": [{"host": k.host, "id": k.id} for k in s.keys]}
            for s in plan.steps
        ],
        "unreachable": dict(plan.unreachable),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "host": change.key.host,
        "id": change.key.id,
        "action": ACTION_NAME[change.action.value],
        "why": list(change.why),
        "drift": change.drift,
        "diff": list(change.text),
    }


def _drift(drift: Drift) -> dict[str, Any]:
    return {"host": drift.key.host, "id": drift.key.id, "what": list(drift.what)}


def _restart(restart: Restart) -> dict[str, Any]:
    return {
        "host": restart.host,
        "unit": restart.unit,
        "instance": restart.instance,
        "causes": list(restart.causes),
    }
