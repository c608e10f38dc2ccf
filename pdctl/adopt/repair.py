"""Values that pdctl would refuse -> values that it takes, and a note for each that had to go."""

from __future__ import annotations

import copy
import json
from typing import Any

from pdctl.adopt.note import MODEL, POOLS, SERVING, Kind, Note, Section
from pdctl.adopt.verdict import Problem, judge, lookup, prune
from pdctl.spec.finding import Path
from pdctl.topology.model import Role
from pdctl.topology.placement import POOL_FIELD

# Without these a spec is none; whatever else is refused can be left to pdctl.
KEPT = {"cluster", "hosts", "model", "serving", "name", "id", "host", "prefillers", "decoders", "instances"}
ATTEMPTS = 200
# Estimates, which a deployment that runs proves wrong.
ESTIMATES = ("MEM001", "MEM003", "MODEL004", "MODEL007", "NET001")
RUNS = "it was running so when this file was written"
SECTIONS: dict[str, Section] = {POOL_FIELD[Role(role)]: section for role, section in POOLS.items()}


def repaired(values: dict[str, Any]) -> tuple[dict[str, Any], list[Note], tuple[Problem, ...]]:
    """The values, what was left out, and the problems for which nothing can be left out."""
    values, notes = copy.deepcopy(values), []
    for _ in range(ATTEMPTS):
        verdict = judge(values)
        for problem in verdict.problems:
            note = _mend(values, problem)
            if note is not None:
                notes.append(note)
                break  # the other paths may have moved
        else:
            return values, notes, verdict.problems
    return values, notes, judge(values).problems


def _mend(values: dict[str, Any], problem: Problem) -> Note | None:
    if problem.rule in ESTIMATES:
        return _set_aside(values, problem)
    if problem.path[-1:] == ("tensor_parallel",) and problem.path[:1] == ("serving",):
        return _one_width(values, problem)
    for end in range(len(problem.path), 0, -1):
        path = problem.path[:end]
        if path[-1] in KEPT or (isinstance(path[-1], int) and path[-2] in ("hosts", "placement")):
            continue
        if lookup(values, path) is not None:
            return _leave_out(values, path, problem)
    return None


def _set_aside(values: dict[str, Any], problem: Problem) -> Note:
    values.setdefault("suppress", []).append({"rule": problem.rule, "reason": RUNS})
    text = f"pdctl would refuse it: {problem.message}; it runs, so {problem.rule} is suppressed"
    return Note(Kind.GUESS, _section(problem.path), _name(problem.path[:2]), text)


def _leave_out(values: dict[str, Any], path: Path, problem: Problem) -> Note:
    holder = lookup(values, path[:-1])
    gone = holder[path[-1]]
    if path[-2:-1] == ("extra_args",) and isinstance(path[-1], int):
        gone = " ".join(_take_flag(holder, path[-1]))
    else:
        del holder[path[-1]]
        prune(values, path[:-1])
    text = f"`{_name(path)}` would be refused: {problem.message}"
    original = gone if isinstance(gone, str) else json.dumps(gone)
    return Note(Kind.LEFT_OUT, _section(path), _name(path[:2]), text, original)


def _take_flag(words: list[str], index: int) -> list[str]:
    """Remove a flag with its values; the complaint may be about either."""
    while index > 0 and not words[index].startswith("-"):
        index -= 1
    end = index + 1
    while end < len(words) and not words[end].startswith("-"):
        end += 1
    gone = words[index:end]
    del words[index:end]
    return gone


def _one_width(values: dict[str, Any], problem: Problem) -> Note | None:
    """Both sides need one tensor_parallel: the decoders' counts, and pdctl places the prefillers."""
    serving = values["serving"]
    ours, theirs = serving.get("prefillers"), serving.get("decoders")
    if not ours or not theirs or ours["tensor_parallel"] == theirs["tensor_parallel"]:
        return None
    before = ours["tensor_parallel"]
    ours["tensor_parallel"] = theirs["tensor_parallel"]
    for place in ours["placement"]:
        place.pop("gpus", None)
    text = f"{problem.message}; the draft gives prefillers {theirs['tensor_parallel']} too"
    original = f"--tensor-parallel-size {before}"
    return Note(Kind.CONTRADICTION, POOLS["prefiller"], "prefillers", text, original)


def _section(path: Path) -> Section:
    if path[:1] == ("serving",):
        inner = str(path[1]) if len(path) > 1 else ""
        return SECTIONS.get(inner, ("serving", inner) if inner in ("proxy", "lmcache", "ports") else SERVING)
    return MODEL if path[:1] == ("model",) else (str(path[0]),)


def _name(path: Path) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")
