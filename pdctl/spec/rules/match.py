"""Rules on what prefillers and decoders must agree on, whichever way it is given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from pdctl.knowledge.matching import (
    HASH_ALGORITHM,
    LMCACHE_OWN_AFFAIR,
    LMCACHE_PREFIX,
    PYTHONS_OWN_HASH,
    SETTINGS,
    Setting,
)
from pdctl.knowledge.versions import STABLE_BUILTIN_HASH_PYTHON, at_least
from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster
from pdctl.spec.rules.environment import reserved
from pdctl.spec.rules.rule import pin, pools
from pdctl.spec.rules.settings import effective, read_value
from pdctl.spec.secrecy import shown
from pdctl.spec.serving import Pool

# NixlConnector reads one decoder rank from several prefiller ranks too (vLLM PR 27274, in 0.33.0's
# compatibility page); in 0.11.0 a decoder's TP must be a multiple of its prefiller's.
LARGER_PREFILLERS = "0.33.0"
OTHER_SIDE = {"prefillers": "decoders", "decoders": "prefillers"}
CONSEQUENCE = {
    "MATCH004": "the KV cache that one writes means something else to the other",
    "MATCH005": "the KV cache that one writes is not what the other would compute",
    "MATCH008": "one side refuses requests that the other takes, or the first token of an answer and the rest"
    " follow different settings",
}


def tensor_parallel_fits(cluster: Cluster) -> Iterator[Finding]:
    serving = cluster.serving
    if serving.mode != "disaggregated" or serving.prefillers is None or serving.decoders is None:
        return
    p, d = serving.prefillers.tensor_parallel, serving.decoders.tensor_parallel
    if why := _lmcache(p, d) if serving.connector == "lmcache" else _nixl(p, d, pin(cluster, "vllm")):
        rule, message, hint = why
        yield Finding(
            rule,
            ("serving", "decoders", "tensor_parallel"),
            f"decoders have tensor_parallel {d} and prefillers {p}; {message}",
            hint,
        )


def settings_are_the_same(cluster: Cluster) -> Iterator[Finding]:
    sides = _sides(cluster)
    if sides is None:
        return
    prefillers, decoders = ({name: _all_of(name, pool) for name, pool in sides.items()}).values()
    for setting in SETTINGS:
        ours, theirs = decoders.get(setting), prefillers.get(setting)
        if _value(setting, ours) != _value(setting, theirs):
            yield _difference(setting, ours, theirs)


def lmcache_variables_are_the_same(cluster: Cluster) -> Iterator[Finding]:
    """LMCache lets a variable win over its file; on one side only, the two speak of other chunks."""
    sides = _sides(cluster)
    if sides is None or cluster.serving.connector != "lmcache":
        return
    for side, pool in sides.items():
        other = sides[OTHER_SIDE[side]].env
        for name, value in pool.env.items():
            if not name.startswith(LMCACHE_PREFIX) or name in LMCACHE_OWN_AFFAIR or reserved(name):
                continue
            if other.get(name) == value or (side == "prefillers" and name in other):
                continue  # told once, at the decoders
            there = shown(other[name]) if name in other else "not set"
            yield Finding(
                "MATCH005",
                ("serving", side, "env", name),
                f"`{name}` is {shown(value)} on {side} and {there} on {OTHER_SIDE[side]};"
                f" {CONSEQUENCE['MATCH005']}",
                "set it to one value on both sides, or on neither",
            )


def the_hash_is_stable(cluster: Cluster) -> Iterator[Finding]:
    """Before 3.12 Python's own hash of None depends on where None lies in memory."""
    python = pin(cluster, "python")
    if at_least(python, STABLE_BUILTIN_HASH_PYTHON) or cluster.engine.kind != "vllm":
        return
    for path, pool in pools(cluster):
        if pool.env.get(HASH_ALGORITHM) == PYTHONS_OWN_HASH:
            yield Finding(
                "MATCH007",
                (*path, "env", HASH_ALGORITHM),
                f"`{PYTHONS_OWN_HASH}` is Python's own hash, which with Python {python} differs from process"
                " to process, so no chunk would ever be found",
                f"remove it: pdctl sets one that is stable; or use Python {STABLE_BUILTIN_HASH_PYTHON}",
            )


class _Given(NamedTuple):
    value: Any
    text: str
    path: Path


def _sides(cluster: Cluster) -> dict[str, Pool] | None:
    serving = cluster.serving
    if serving.mode != "disaggregated" or serving.prefillers is None or serving.decoders is None:
        return None
    return {"prefillers": serving.prefillers, "decoders": serving.decoders}


def _all_of(side: str, pool: Pool) -> dict[Setting, _Given]:
    flags = effective(pool.extra_args)
    found: dict[Setting, _Given] = {}
    for setting in SETTINGS:
        if setting.env and setting.env in pool.env:
            text = pool.env[setting.env]
            found[setting] = _Given(text, text, ("serving", side, "env", setting.env))
        if setting.flag in flags:  # vLLM lets the flag win
            value, index = flags[setting.flag]
            text = value if isinstance(value, str) else json.dumps(value)
            found[setting] = _Given(value, text, ("serving", side, "extra_args", index))
    return found


def _value(setting: Setting, given: _Given | None) -> Any:
    """A switch that is given as off, or a default that is given, is as good as not given."""
    if given is None or given.value is False:
        return read_value(setting.default)
    return given.value.upper() if setting.any_case and isinstance(given.value, str) else given.value


def _difference(setting: Setting, ours: _Given | None, theirs: _Given | None) -> Finding:
    given = ours or theirs
    assert given is not None
    default = f"`{setting.default}` (the default)" if setting.default else "the default"
    said = [shown(each.text) if each else default for each in (ours, theirs)]
    return Finding(
        setting.rule,
        given.path,
        f"`{setting.name}` is {said[0]} on decoders and {said[1]} on prefillers; {CONSEQUENCE[setting.rule]}",
        "give it on both sides, with one value, or on neither",
    )


def _lmcache(p: int, d: int) -> tuple[str, str, str] | None:
    # The cache key holds the number of ranks (LMCache cache_engine.py), so other chunks are never found.
    if p == d:
        return None
    return (
        "MATCH001",
        "with the lmcache connector they must be equal",
        "make them equal, or use `connector: nixl`",
    )


def _nixl(p: int, d: int, vllm: str) -> tuple[str, str, str] | None:
    if d % p == 0:
        return None
    if p % d:
        return "MATCH002", "one must be a multiple of the other", "make them equal"
    if at_least(vllm, LARGER_PREFILLERS):
        return None
    return (
        "MATCH003",
        f"vLLM {vllm} is not known to read from more prefiller ranks than a decoder has",
        f"make them equal, or tensor_parallel of decoders a multiple; known to work from {LARGER_PREFILLERS}",
    )
