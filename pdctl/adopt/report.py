"""Draft -> what was found where and what the reader must know, as a document."""

from __future__ import annotations

from typing import Any

from pdctl.adopt.draft import Draft
from pdctl.adopt.engine import Engine
from pdctl.adopt.observed import Seen
from pdctl.adopt.verdict import judge

FORMAT = "pdctl-adoption/1"


def report(draft: Draft, path: str | None) -> dict[str, Any]:
    """`path` is the file that was written; None when it was printed."""
    deployment = draft.deployment
    names = _names(draft)
    front = deployment.front
    return {
        "format": FORMAT,
        "draft": path,
        "cluster": draft.values["cluster"],
        "valid": not draft.problems,
        "problems": [problem.message for problem in draft.problems],
        "hosts": [_host(seen) for seen in deployment.hosts],
        "found": [_row(engine, names.get((engine.host, engine.port))) for engine in deployment.engines],
        "proxy": None
        if front is None
        else {"host": front.host, "process": front.process.label, "kind": front.kind, "port": front.port},
        "notes": [
            {"kind": n.kind.value, "where": n.where, "text": n.text, "original": n.original}
            for n in draft.notes
        ],
        "stop_first": _stop_first(draft),
        "spec": draft.values,
    }


def _names(draft: Draft) -> dict[tuple[str, int], str]:
    topology = judge(draft.values).topology
    return {(i.host, i.ports.http): i.name for i in topology.instances} if topology else {}


def _host(seen: Seen) -> dict[str, Any]:
    facts = seen.answer.facts
    return {
        "host": seen.name,
        "address": seen.address,
        "os": f"{facts.os_id} {facts.os_version}".strip(),
        "gpus": [gpu.name for gpu in facts.gpus],
        "driver": facts.gpus[0].driver_version if facts.gpus else None,
    }


def _row(engine: Engine, name: str | None) -> dict[str, Any]:
    process = engine.process
    return {
        "instance": name,
        "role": engine.role.value if engine.role else None,
        "host": engine.host,
        "process": process.label,
        "pid": process.pid,
        "user": process.user,
        "port": engine.port,
        "gpus": list(engine.gpus),
        "tensor_parallel": engine.tensor_parallel,
        "simulated": engine.simulator is not None,
        "versions": dict(engine.versions),
    }


def _stop_first(draft: Draft) -> dict[str, list[str]]:
    """A command for each process that holds what the draft's instances will need, by host."""
    deployment = draft.deployment
    heads = [(e.host, e.process) for e in deployment.engines]
    heads += [(deployment.front.host, deployment.front.process)] if deployment.front else []
    found: dict[str, list[str]] = {}
    own = deployment.cluster == draft.values["cluster"]
    for host, process in [] if own else heads:
        manager = f"systemctl --user -M {process.user}@" if process.user_unit else "systemctl"
        command = f"{manager} disable --now {process.unit}" if process.unit else f"kill {process.pid}"
        if process.unit.startswith("run-"):  # systemd-run: transient, so there is nothing to disable
            command = f"{manager} stop {process.unit}"
        found.setdefault(host, []).append(command)
    return {host: list(dict.fromkeys(commands)) for host, commands in found.items()}
