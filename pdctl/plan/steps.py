"""The order of a plan: files first, then what does not run yet, then running instances batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

from pdctl.plan.front import Front, front
from pdctl.plan.losses import with_losses
from pdctl.plan.members import members, rolled
from pdctl.plan.model import Step, StepKind
from pdctl.plan.reboot_steps import groups, idle_step, serving
from pdctl.plan.restarts import stale_peers, unit_file
from pdctl.plan.rollout import Group, Member, only, roll, told, unsure
from pdctl.plan.room import halted, in_the_way
from pdctl.plan.turns import in_their_turn
from pdctl.plan.waves import Tie, apart, tie, waves
from pdctl.plan.work import Work
from pdctl.state import Key, Unit
from pdctl.topology.model import START_ORDER, Role

ROLE_TITLE = {
    Role.DECODER: "Start decoders and wait until they are healthy",
    Role.SERVER: "Start servers and wait until they are healthy",
    Role.PREFILLER: "Start prefillers and wait until they are healthy",
    Role.PROXY: "Start the proxy and wait until it is healthy",
}
PUT_TITLE = "Put users, packages, files and runtimes in place"
PROXY_AWAY = "no request is taken while the proxy restarts"
ALL_AWAY = "nothing is answered until all of them and the proxy are as the spec says"


@dataclass(frozen=True)
class Course:
    """How the work is gone about. `leaving` and `halting` stop before others start, `rest` of what left the
    spec goes last. `early`: the proxy takes up its new list before the rollout. `rebooted` are hosts that
    reboot within the rollout, in `groups`."""

    door: Front
    leaving: tuple[Key, ...]
    halting: tuple[Key, ...]
    rest: tuple[Key, ...]
    rolled: frozenset[Key]
    members: tuple[Member, ...]
    tied: Tie | None
    early: bool
    rebooted: tuple[str, ...] = ()
    groups: Sequence[Group] = ()


def steps(work: Work) -> tuple[Step, ...]:
    """Ordered steps; each key stands in one step that puts or starts it, those halted before in two. What
    running units alone read is put where they restart (`pdctl.plan.turns`).

    What does not run starts at once, a role at a time. Engines that run and restart follow in batches, each
    drained at the proxy first, unless they cannot be mixed with those of before (`_together`). Units that
    left the spec stop first when another one starts on their host (it may want their GPUs or ports), else
    last, when nothing needs them any more.
    """
    course = _course(work)
    found = [Step("put", PUT_TITLE, work.put + _learned(work), StepKind.PUT)]
    found += _room(work, course)
    away = ALL_AWAY if _together(course.door) and course.door.runs and course.tied is None else ""
    found += idle_step(work, course.rebooted, away if any(map(work.runs, work.units)) else "")
    found += _units(work, course)
    found.append(Step("delete", "Remove what left the spec", course.rest, StepKind.DELETE))
    found = [step for step in in_their_turn(work, course.door, found) if step.keys or step.hosts]
    return tuple(with_losses(work, course.door, _told_apart(found)))


def _told_apart(found: Iterable[Step]) -> Iterator[Step]:
    """Titles name only a few instances: where two are the same, the second gets a number."""
    seen: Counter[str] = Counter()
    for step in found:
        seen[step.title] += 1
        count = seen[step.title]
        yield step if count == 1 else replace(step, title=f"{step.title} ({count})")


def _course(work: Work) -> Course:
    kept, gone = work.kept, work.gone
    door = front(work.topology, work.wanted, work.observed, work.restarted, work.contents)
    leaving = in_the_way(gone, kept, work.restarts, work.wanted, work.reboots.hosts)
    halting = halted(kept, work.restarts, work.wanted, work.observed, ordered=_together(door))
    rolls = set() if _together(door) else rolled(work, halting)
    hosts = () if _together(door) else serving(work, door, rolls)
    down = {key for key in work.units if key.host in hosts and key not in rolls and key != door.key}
    moving = {work.instance(key) for key in rolls} & door.moved
    late = door.restarts or door.more or moving or any(work.runs(c.key) for c in gone)
    early = door.reloads and not late
    some = tuple(members(work, door, rolls, halting, down, early=early))
    return Course(
        door,
        leaving,
        halting,
        tuple(c.key for c in gone if c.key not in leaving),
        frozenset(rolls | down),
        some,
        tie(some, door, stale=stale_peers(work.topology)),
        early,
        hosts,
        groups(work, door, some, hosts, work.topology.spec.serving.rollout),
    )


def _units(work: Work, course: Course) -> list[Step]:
    """Starts, then the rollout, and the proxy at the end or where it takes up its list without harm."""
    door, tied, units, touched = course.door, course.tied, work.units, _touched_units(work)
    rollout = work.topology.spec.serving.rollout
    proxy = _proxy(door, touched, rebooted=any(group.proxy for group in course.groups))
    found = apart(tied, door) if tied else []
    for role in START_ORDER[:-1]:
        keys = tuple(k for k in touched if units[k].role == role and k not in course.rolled)
        again = any(k in work.restarted for k in keys)
        away = ALL_AWAY if _together(door) and door.runs and again else ""
        found.append(Step(role.value, ROLE_TITLE[role], keys, outage=away))
    first, last = _farewells(work, course)
    found += first
    if tied:
        held = _waiting(work, course) | _left(course)
        drained = {name for step in first for name in step.drain}
        met = {work.instance(key) for key in course.rest if work.runs(key)} - drained
        ends = not any(name.startswith(f"{Role.PREFILLER}-") for name in met)
        found += waves(tied, door, rollout, held, course.groups, reload=course.early, ends=ends)
    elif course.early:
        found += [*proxy, *roll(course.members, door, rollout, (), course.groups)]
    else:
        found += roll(course.members, door, rollout, _waiting(work, course), course.groups)
    return [*found, *last, *([] if course.early and not tied else proxy)]


def _together(door: Front) -> bool:
    """Whether engines of before and after cannot serve side by side, or none is asked anything."""
    return door.switched or (door.seen and not door.runs) or (door.fixed and bool(door.moved))


def _proxy(door: Front, touched: Sequence[Key], *, rebooted: bool = False) -> list[Step]:
    """`rebooted`: its host was, which has started it again."""
    title = "See that the proxy is back" if rebooted else ROLE_TITLE[Role.PROXY]
    if door.runs and not door.restarts:
        title = "Look after the proxy"
        title = "Have the proxy give requests to all instances again" if door.drained or door.sides else title
        title = "Have the proxy take up its new list" if door.reloads else title
    keys = tuple(key for key in touched if key == door.key)
    return [Step(Role.PROXY.value, title, keys, outage=PROXY_AWAY if door.restarts and not rebooted else "")]


def _room(work: Work, course: Course) -> list[Step]:
    """What is about to be stopped is drained before, where another one serves; what an earlier rollout left
    drained or apart serves again before that, unless a tied one begins."""
    door, keys = course.door, (*course.leaving, *course.halting)
    away = "; ".join(_nobody_else(work, course, keys)) if door.runs else ""
    leaves = any(work.runs(key) for key in course.rest)
    before = (keys or course.rolled or leaves) and not course.tied  # alone it is the step of the proxy
    left, ends = (_left(course) if before else set()), (() if before and door.sides else None)
    found = [told(door, "settle", (), sorted(left), ends)] if left or ends is not None else []
    found += _farewell(work, course, keys, "room", ())
    return [*found, Step("stop", "Stop what makes room", keys, StepKind.STOP, outage=away)]


def _nobody_else(work: Work, course: Course, keys: Sequence[Key]) -> Iterator[str]:
    """What is not answered while those of `keys` that run are away, a role at a time."""
    staying = _staying(work, course, keys)
    names = [work.instance(key) for key in keys if work.runs(key)]
    for role in START_ORDER:
        alone = sorted(name for name in names if name.split("-")[0] == role)
        if alone and role not in staying:
            others = _unseen(course, role)
            yield unsure(others, alone) if others else only(role, alone)


def _farewells(work: Work, course: Course) -> tuple[list[Step], list[Step]]:
    """Instances that left the spec get no request any more; then the proxy forgets them.

    They go before others move, since the proxy forgets them with its new list. A prefiller goes before a tied
    rollout, since it is not restarted and must meet no decoder that has been.
    """
    moves = any(m.moves for m in course.members)
    units = [key for key in course.rest if key.id.startswith("unit:")]
    prefills = [key for key in units if work.instance(key).startswith(f"{Role.PREFILLER}-")]
    first = units if moves else prefills if course.tied else []
    last = [key for key in units if key not in first]
    started = [m for m in course.members if m.starts and m.known]
    undrained = [m for m in started if m.name not in course.door.drained]  # the others wait for the rollout
    return (
        _farewell(work, course, first, "leave_first", undrained),
        _farewell(work, course, last, "leave", started),
    )


def _farewell(
    work: Work, course: Course, keys: Sequence[Key], name: str, started: Sequence[Member]
) -> list[Step]:
    """Where those of their role which serve on could not be looked at, nobody waits for them."""
    serve = frozenset(m.role.value for m in started)
    may = serve | {m.role.value for m in course.members if m.unseen and m.known}
    names = _drainable(work, course, keys, may)
    rest = {each.split("-")[0] for each in names} - serve - _staying(work, course, keys)
    others = [m for m in course.members if m.unseen and m.known and m.role in rest]
    step = replace(told(course.door, name, names), others=not others, outage=unsure(others) if others else "")
    return [step] if names else []


def _unseen(course: Course, role: Role) -> list[Member]:
    return [m for m in course.members if m.role == role and m.unseen and m.known]


def _waiting(work: Work, course: Course) -> set[str]:
    """Drained, and up again before the first batch: what was halted, and what an earlier rollout has lost."""
    lost = {m.name for m in course.members if m.starts} & course.door.drained
    return lost | set(_drainable(work, course, course.halting))


def _left(course: Course) -> set[str]:
    """Left drained by an earlier rollout, and running."""
    names = {m.name for m in course.members if not m.rolls and not m.starts and not m.unseen}
    return names & course.door.drained


def _drainable(work: Work, course: Course, keys: Sequence[Key], started: Set[str] = frozenset()) -> list[str]:
    """Those of `keys` that run, as far as another one of their role, which stays, serves too. `started` are
    roles of which one has been started by then."""
    door = course.door
    if not door.listens:
        return []
    staying = started | _staying(work, course, keys)
    found = [work.instance(key) for key in keys if work.runs(key) and key.id != door.key.id]
    return sorted(name for name in found if name.split("-")[0] in staying)


def _staying(work: Work, course: Course, keys: Sequence[Key]) -> set[str]:
    """The roles of which one serves while `keys` do not."""
    door = course.door
    # An earlier rollout that was tied goes on from its sides: whether they are whole, nobody knows here.
    unsure = door.drained | (door.sides if course.tied else frozenset())
    return {
        unit.role
        for key, unit in work.units.items()
        if work.runs(key) and key not in keys and unit.instance not in unsure
    }


def _learned(work: Work) -> tuple[Key, ...]:
    """What drifted to something that is as good: only the record has to learn it."""
    changed = {c.key for c in work.changes}
    return tuple(
        d.key
        for d in work.drift
        if d.key in work.wanted and d.key not in changed and not isinstance(work.wanted[d.key], Unit)
    )


def _touched_units(work: Work) -> list[Key]:
    units = work.units
    changed = {c.key for c in work.kept if isinstance(c.desired, Unit)}
    # Only the record has to learn these: they run as wanted, but not the run that was recorded.
    learned = {d.key for d in work.drift if d.key in units}
    files = {c.key for c in work.kept}
    reloaded = {key for key, unit in units.items() if unit_file(key, unit) in files}
    return sorted(changed | work.restarted.keys() | learned | reloaded)
