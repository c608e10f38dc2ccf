"""A run that did not come to its end, and a look after it -> one error: how things stand and go on."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.apply.look import Look
from pdctl.apply.making import APPLY, DESTROY
from pdctl.apply.run import Done
from pdctl.errors import UnfinishedError
from pdctl.plan.model import Plan, StepKind
from pdctl.plan.rollout import some
from pdctl.state import State, Unit
from pdctl.topology.model import Role

AHEAD = 4  # steps that are named
BESIDE_HINT = "\n" + " " * len("hint: ")


def raise_for(done: Done, seen: Look, after: Look, again: str = APPLY) -> None:
    """The errors of single hosts as one; nothing when there are none. `again` is the command that goes on."""
    if not done.errors:
        return
    count = len(done.errors)
    where = f"on {count} host{'s' if count > 1 else ''}"
    stopped = f"; it stopped in step `{done.stopped}`" if _is_step(seen.plan, done.stopped) else ""
    raise UnfinishedError(
        f"`{seen.topology.cluster}` was not brought to its spec {where}{stopped}",
        done.errors,
        done.did,
        hint=BESIDE_HINT.join(
            [
                *_standing(seen.desired, after, done.stopped),
                f"mend the cause and run `{again}` again: it goes on where this ended"
                + (f", and `{APPLY}` would go forward" if again not in (APPLY, DESTROY) else "")
                + _ahead(after.plan),
            ]
        ),
    )


def _is_step(plan: Plan, title: str) -> bool:
    return any(step.title == title for step in plan.steps if step.kind is not StepKind.PUT)


def _standing(desired: State, after: Look, stopped: str) -> list[str]:
    """Who still serves, and who gets no requests. Empty for engines that nobody was asked about."""
    now, unproven = after.seen.state, {drift.key for drift in after.plan.drift if drift.unproven}
    wanted = {r.instance: key for key, r in sorted(desired.items()) if isinstance(r, Unit)}
    units = {name: now.get(key) for name, key in wanted.items()}
    proxy = units.get(Role.PROXY.value)
    if not stopped or not isinstance(proxy, Unit) or proxy.active != "active":
        return []
    engines = {
        name: unit for name, unit in units.items() if name != Role.PROXY and wanted[name] not in unproven
    }
    runs = [name for name, unit in engines.items() if isinstance(unit, Unit) and unit.active == "active"]
    away = [name for name in units if name in proxy.drained]
    serving = [name for name in runs if name not in away]
    dark = [name for name in engines if wanted[name].host in after.seen.failures]
    none = "no engine that was looked at serves now" if dark else "no engine serves now"
    lines = [f"{some([*serving, 'the proxy'])} go on as they are" if serving else none]
    lines += [f"whether {some(dark)} serve{'' if dark[1:] else 's'} is not known"] if dark else []
    one = len(away) == 1
    word = "it serves" if one else "they serve"
    return lines + (
        [f"{some(away)} get{'s' if one else ''} no requests until {word} as the spec says"] if away else []
    )


def _ahead(plan: Plan) -> str:
    titles: Sequence[str] = [step.title for step in plan.steps]
    if not titles:
        return ""
    more = f", and {len(titles) - AHEAD} more steps" if len(titles) > AHEAD + 1 else ""
    shown = titles if not more else titles[:AHEAD]
    return f" ({'; '.join(title[0].lower() + title[1:] for title in shown)}{more})"
