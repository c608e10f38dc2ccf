"""Plan document x world <-> a plan that can be kept, and that is carried out exactly or not at all. Pure.

Nothing in a kept plan is ever carried out from it: an apply makes its own plan, and goes on only when that is
the same. So a file that somebody has written by hand can do no harm.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pdctl.errors import ApplyError
from pdctl.plan.document import FORMAT
from pdctl.plan.targets import Targets, World
from pdctl.state import Key, Resource
from pdctl.state.codec import resource_to_json
from pdctl.state.digest import object_digest

AGAIN = "make a new one: pdctl diff --out"
SHOWN = 5  # things that moved, in a message


@dataclass(frozen=True)
class Saved:
    """A kept plan: where its spec lies, the digest of that text, and what it was made from."""

    name: str  # what errors call the file
    spec: str
    digest: str
    pdctl: str
    targets: Targets
    sealed: Mapping[str, Any]


def sealed(
    document: Mapping[str, Any], world: World, keys: Collection[Key], spec: Mapping[str, str], pdctl: str
) -> dict[str, Any]:
    """The document with what an apply compares. `spec` has its `path` and the `digest` of its text; `keys`
    are those that the plan may touch."""
    found = {
        **document,
        "sealed": {
            "spec": dict(spec),
            "pdctl": pdctl,
            "wish": wish_digest(world, keys),
            "plan": plan_digest(document),
            "hosts": fingerprints(world, keys),
        },
    }
    return {**found, "checksum": _checksum(found)}


def unsealed(data: Any, name: str) -> Saved:
    """Raises ApplyError for what is no plan, a plan of another version, or one that was changed."""
    if not isinstance(data, dict) or not str(data.get("format", "")).startswith("pdctl-plan/"):
        raise ApplyError("is no plan of pdctl", where=name, hint="pdctl diff --out writes one")
    if data["format"] != FORMAT:
        words = f"is a plan of another version of pdctl ({data['format']}, this one reads {FORMAT})"
        raise ApplyError(words, where=name, hint=f"{AGAIN} {name}")
    if "sealed" not in data:
        raise ApplyError(
            "is the JSON of `pdctl diff --json`, which is only to be read", where=name, hint=f"{AGAIN} {name}"
        )
    if data.get("checksum") != _checksum({key: value for key, value in data.items() if key != "checksum"}):
        raise ApplyError("was changed after pdctl wrote it", where=name, hint=f"{AGAIN} {name}")
    asked = data["targets"] or {}
    targets = Targets(*(tuple(asked.get(kind, ())) for kind in ("hosts", "roles", "instances", "layers")))
    seal = data["sealed"]
    return Saved(name, seal["spec"]["path"], seal["spec"]["digest"], seal["pdctl"], targets, seal)


def refuse_other(saved: Saved, document: Mapping[str, Any], world: World, keys: Collection[Key]) -> None:
    """Raises ApplyError unless `document`, made now, is the plan that was kept."""
    moved = list(_moved(saved.sealed["hosts"], fingerprints(world, keys)))
    if moved:
        more = f"; and {len(moved) - SHOWN} more" if len(moved) > SHOWN else ""
        said = f"the hosts are not as they were when it was made: {'; '.join(moved[:SHOWN])}{more}"
        raise ApplyError(said, where=saved.name, hint=f"{AGAIN} {saved.name}")
    if wish_digest(world, keys) != saved.sealed["wish"]:
        said = "the secrets, or what pdctl makes of the spec, are others than when it was made"
        raise ApplyError(said, where=saved.name, hint=f"{AGAIN} {saved.name}")
    if plan_digest(document) != saved.sealed["plan"]:
        said = "what is to be done now is not what was planned"
        raise ApplyError(said, where=saved.name, hint=f"{AGAIN} {saved.name}")


def fingerprints(world: World, keys: Collection[Key]) -> dict[str, dict[str, str]]:
    """By host and id: a digest of how each thing is, and of how it was recorded."""
    found: dict[str, dict[str, str]] = {}
    for key in sorted(world.keys & set(keys)):
        parts = [_row(world.observed.get(key)), _row(world.recorded.get(key)), key in world.pending]
        debt = world.owed.get(key)
        parts.append([debt.invocation, list(debt.causes), list(debt.peers)] if debt else None)
        found.setdefault(key.host, {})[key.id] = object_digest(parts)
    return found


def wish_digest(world: World, keys: Collection[Key]) -> str:
    wanted = [[*key, _row(world.desired[key])] for key in sorted(world.desired.keys() & set(keys))]
    return object_digest(wanted)


def plan_digest(document: Mapping[str, Any]) -> str:
    """Of what is done, to what, and in which order; not of times and reasons."""
    return object_digest(
        [
            document["cluster"],
            [[c["host"], c["id"], c["action"], c["why"]] for c in document["changes"]],
            [[r["host"], r["unit"], r["causes"]] for r in document["restarts"]],
            [
                [s["name"], s["kind"], s["resources"], s["drain"], s["undrain"], s["apart"]]
                for s in document["steps"]
            ],
            sorted(document["unreachable"]),
        ]
    )


def text_digest(text: bytes) -> str:
    return "sha256:" + hashlib.sha256(text).hexdigest()


def _moved(then: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for host in sorted(then.keys() | now.keys()):
        if host not in now:
            yield f"{host} cannot be looked at"
        elif host not in then:
            yield f"{host} was left out then"
        else:
            rows, others = then[host], now[host]
            for name in sorted(rows.keys() | others.keys()):
                if rows.get(name) != others.get(name):
                    yield f"{host} {name.replace(':', ' ', 1)}"


def _row(resource: Resource | None) -> Any:
    return None if resource is None else resource_to_json(resource)


def _checksum(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text_digest(text.encode())
