"""State x State -> Plan: what changes, what drifted, what restarts, in which order."""

from pdctl.plan.make import make_plan
from pdctl.plan.model import Action, Change, Drift, Owed, Plan, Restart, Step, StepKind

__all__ = ["Action", "Change", "Drift", "Owed", "Plan", "Restart", "Step", "StepKind", "make_plan"]
