"""How running engines are restarted: on any cluster, in any state, somebody serves and no pair is wrong."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pdctl.desired import desire
from pdctl.plan import Owed, Plan, make_plan
from pdctl.plan.batches import at_once
from pdctl.plan.belonging import instance_of_key
from pdctl.state import File, Key, State, Unit
from pdctl.state.digest import content_digest
from pdctl.topology import Topology, resolve
from tests.plan.executor import Cluster, Engine
from tests.topology import specs

EXAMPLES = 8000 if "PDCTL_SOAK" in os.environ else 120
STATES = ("fine", "fine", "restarts", "restarts", "moves", "stopped", "crashed", "new", "slow")


@dataclass(frozen=True)
class World:
    """What a plan is made for. `engines`: instance -> one of STATES; `gone`: running ones that left."""

    engines: dict[str, str]
    gone: tuple[str, ...] = ()
    stale: bool = False
    proxy: str = "fine"
    drained: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()
    canary: int = 1
    max_unavailable: int | str = 1

    @property
    def counts(self) -> tuple[int, int]:
        names = list(self.engines)
        return sum(n.startswith("p") for n in names), sum(n.startswith("d") for n in names)

    def of(self, role: str, *states: str) -> list[str]:
        return [n for n, state in self.engines.items() if n.startswith(role) and state in states]


@functools.cache
def wanted(
    counts: tuple[int, int], stale: bool, canary: int, max_unavailable: int | str
) -> tuple[Topology, State]:
    serving = specs.serving(*counts, 1) | {
        "rollout": {"canary": canary, "max_unavailable": max_unavailable},
        "proxy": {"host": "gpu01"},
    }
    engine = {"kind": "simulator", "simulator": {"stale_peers": stale}}
    topology = resolve(specs.cluster(hosts=specs.hosts(2), engine=engine, serving=serving))
    return topology, desire(topology)


def planned(world: World) -> tuple[Plan, Cluster, Topology]:
    topology, desired = wanted(world.counts, world.stale, world.canary, world.max_unavailable)
    observed, contents = seen(world, topology, desired)
    recorded = {k: r for k, r in observed.items() if not (isinstance(r, Unit) and r.active == "never")}
    observed = {k: r for k, r in observed.items() if not (isinstance(r, Unit) and r.active == "never")}
    owed = dict(debts(world, observed))
    slow = {
        key: "did not become healthy in 5 s"
        for key, row in observed.items()
        if isinstance(row, Unit) and world.engines.get(row.instance) == "slow"
    }
    plan = make_plan(
        topology,
        desired,
        observed,
        recorded,
        contents=contents,
        pending=slow.keys(),
        unproven=slow,
        owed=owed,
    )
    return plan, cluster_of(world), topology


def seen(world: World, topology: Topology, desired: State) -> tuple[dict[Key, Any], dict[Key, bytes]]:
    """The hosts of that world, and the proxy's list as it lies there."""
    observed = dict(desired)
    contents = {}
    for key, resource in desired.items():
        if isinstance(resource, Unit) and resource.role != "proxy":
            observed[key] = unit(resource, world.engines[resource.instance])
            continue
        if world.engines.get(instance_of_key("chat", key), "fine") not in ("fine", "slow"):
            assert isinstance(resource, File)
            observed[key] = replace(resource, digest="of before", content=None)
        if isinstance(resource, File) and resource.path.endswith("/proxy.json"):
            old = former_list(world, resource.content or b"")
            observed[key] = replace(resource, digest=content_digest(old), content=None)
            contents = {key: old} if old != resource.content else {}
            loaded = content_digest(old)
    for name in world.gone:
        row = Unit(f"pdctl-chat-{name}.service", revision="r0", invocation="i1")
        observed[Key("gpu02", row.id)] = row
    proxy, want = next((k, r) for k, r in desired.items() if isinstance(r, Unit) and r.role == "proxy")
    now = replace(want, loaded=loaded, drained=world.drained, sides=world.sides)
    changed = {
        "fine": now,
        "restarts": replace(now, revision="r0"),
        "deaf": replace(now, loaded="", drained=(), sides=()),
        "stopped": unit(now, "stopped"),
    }
    observed[proxy] = changed[world.proxy]
    return observed, contents


def debts(world: World, observed: State) -> Iterator[tuple[Key, Owed]]:
    """A rollout that left a restarted decoder drained or apart has written down what its prefillers owe."""
    left = {*world.drained, *world.sides} & set(world.of("decoder", "fine", "slow"))
    for name in old_prefillers(world) if world.stale and left else ():
        key = next(k for k in observed if k.id == f"unit:pdctl-chat-{name}.service")
        yield key, Owed(key, "i1", ("its peer restarts",))


def old_prefillers(world: World) -> list[str]:
    """Those that run, but for those that were restarted and put on the new side already."""
    return [n for n in world.of("prefiller", "fine", "slow", "restarts", "moves") if n not in world.sides]


def unit(want: Unit, state: str) -> Unit:
    if state in ("restarts", "moves"):
        return replace(want, revision="r0", invocation="i1")
    if state in ("stopped", "crashed"):
        active = "inactive" if state == "stopped" else "activating/auto-restart"
        return replace(want, active=active, revision="", loaded="", drained=(), sides=(), invocation="")
    return replace(want, active="never" if state == "new" else "active", invocation="i1")


def former_list(world: World, content: bytes) -> bytes:
    """Without those that are new, with those that left, and others at another place."""
    found = json.loads(content)
    for name in ("prefillers", "decoders"):
        rows = [row for row in found[name] if world.engines[row["name"]] != "new"]
        for row in rows:
            row["url"] += "0" if world.engines[row["name"]] == "moves" else ""
        left = [gone for gone in world.gone if gone.startswith(name[:-1])]
        found[name] = rows + [{"name": gone, "url": "http://10.9.9.9:1"} for gone in left]
    return (json.dumps(found, indent=1) + "\n").encode()


def cluster_of(world: World) -> Cluster:
    engines = {}
    for name, state in world.engines.items():
        asked = state != "slow" or name not in world.drained
        down = state in ("stopped", "crashed", "new") or not asked
        place = "there" if state == "moves" else "here"
        engines[name] = Engine(
            name.split("-")[0],
            up=not down,
            new=state in ("fine", "slow"),
            address=place,
            known_at=place,
            asked=asked,
        )
        if state == "new":
            engines[name].known_at = ""
    for name in world.gone:
        engines[name] = Engine(name.split("-")[0], wanted=False)
    running = [n for n in world.engines if engines[n].up or not engines[n].asked]
    older = {n for n in running if world.engines[n] in ("restarts", "moves")}
    both = {name.split("-")[0] for name in older} == {"prefiller", "decoder"}
    made = Cluster(
        engines,
        after=dict.fromkeys(world.engines, "here"),
        remembering=world.stale,
        mixed=not (both and older == set(running)) or world.proxy == "deaf",
        proxy_up=world.proxy != "stopped",
        drained=set(world.drained),
        sides=set(world.sides),
    )
    remember(world, made)
    return made


def remember(world: World, made: Cluster) -> None:
    """Every prefiller has met every decoder that it could meet, also those that have ended since."""
    for p in old_prefillers(world):
        for d, engine in made.engines.items():
            if engine.role == "decoder" and engine.known_at:
                # Whatever was left drained or apart has been restarted since, as far as anybody knows.
                again = d in (*world.drained, *world.sides) and world.engines.get(d) in ("fine", "slow")
                made.met[p, d] = engine.life - int(again)


def run(world: World) -> tuple[Plan, Cluster]:
    plan, cluster, _ = planned(world)
    cluster.run(plan)
    done(world, plan, cluster)
    return plan, cluster


def done(world: World, plan: Plan, cluster: Cluster) -> None:
    """As wanted, with one restart where one was planned."""
    restarted = {r.instance for r in plan.restarts}
    for name, engine in cluster.engines.items():
        if not engine.wanted:
            assert not engine.up and not engine.known_at, name
            continue
        planned = name in restarted or world.engines[name] in ("stopped", "crashed", "new")
        assert engine.restarts == int(planned), f"{name} was started {engine.restarts} times"
        assert engine.up and engine.known_at == engine.address == "here", name
    assert not cluster.drained and not cluster.sides and cluster.proxy_up
    assert len({step.name for step in plan.steps}) == len({s.title for s in plan.steps}) == len(plan.steps)


@st.composite
def worlds(draw: st.DrawFn, *, calm: bool = False) -> World:
    """`calm`: nothing is down, left over or leaves."""
    states = ("fine", "restarts") if calm else STATES
    counts = {"prefiller": draw(st.integers(1, 4)), "decoder": draw(st.integers(1, 5))}
    engines = {f"{r}-{i}": draw(st.sampled_from(states)) for r, n in counts.items() for i in range(n)}
    rollout: dict[str, Any] = {
        "canary": draw(st.integers(0, 3)),
        "max_unavailable": draw(st.sampled_from([1, 2, 3, "25%", "50%", "100%"])),
        "stale": draw(st.booleans()),
    }
    if calm:
        return World(engines, **rollout)
    gone = draw(st.sampled_from([(), (), ("decoder-7",), ("prefiller-7",), ("decoder-7", "prefiller-8")]))
    known = sorted(n for n, state in engines.items() if state != "new")
    apart = draw(st.booleans())
    # One that cannot be told keeps nobody apart: the plan says that requests fail meanwhile.
    deaf = () if rollout["stale"] else ("deaf",)
    proxy = draw(st.sampled_from(("fine", "fine", "fine", "restarts", "stopped", *deaf)))
    left: list[str] = []
    if known and proxy not in ("deaf", "stopped") and draw(st.booleans()):
        left = draw(st.lists(st.sampled_from(known), unique=True, max_size=2))
    return World(
        engines,
        gone=gone,
        proxy=proxy,
        drained=() if apart else tuple(sorted(left)),
        sides=tuple(sorted(left)) if apart else (),
        **rollout,
    )


TWO_OF_EACH = {"prefiller-0": "fine", "prefiller-1": "fine", "decoder-0": "crashed", "decoder-1": "restarts"}

ALL_DRAINED = {"prefiller-0": "restarts", "prefiller-1": "fine", "decoder-0": "fine", "decoder-1": "new"}


# What a canary that failed leaves behind.
@example(World(TWO_OF_EACH, drained=("decoder-0",)))
@example(World(TWO_OF_EACH, drained=("decoder-0", "prefiller-0"), stale=True))
# All that is on the new side is still drained, and what serves leaves.
@example(World(ALL_DRAINED, gone=("prefiller-7",), stale=True, drained=("prefiller-0", "prefiller-1")))
@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_any_plan_ends_as_wanted_with_each_restart_once_and_no_wrong_pair_at_any_moment(world: World) -> None:
    run(world)


def test_an_engine_that_was_not_seen_healthy_is_asked_again_before_it_is_undrained_and_others_follow() -> (
    None
):
    world = World(
        {"prefiller-0": "fine", "decoder-0": "slow", "decoder-1": "restarts"}, drained=("decoder-0",)
    )
    plan, _ = run(world)
    assert [step.title for step in plan.steps] == [
        "Start decoders and wait until they are healthy",
        "Undrain decoder-0, drain decoder-1",
        "Restart decoder-1 and wait until it is healthy",
        "Undrain decoder-1",
        "Have the proxy give requests to all instances again",
    ]
    assert not plan.empty and [restart.instance for restart in plan.restarts] == ["decoder-1"]


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds(calm=True))
def test_with_two_of_each_role_a_change_is_never_an_outage(world: World) -> None:
    plan, cluster, topology = planned(world)
    prefillers, decoders = world.counts
    rollout = topology.spec.serving.rollout
    cluster.limits = {
        "prefiller": max(1, min(at_once(rollout, prefillers), prefillers - 1)),
        "decoder": max(1, min(at_once(rollout, decoders), decoders - 1)),
    }
    cluster.run(plan)
    done(world, plan, cluster)
    if prefillers > 1 and decoders > 1:
        assert not cluster.outages, [step.outage for step in cluster.outages]
