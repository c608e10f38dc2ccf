"""request -> a proxy that sends nothing to some instances, which then have been idle for long enough."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ansible.module_utils.pdctl_control import START_S, AbsentError, ControlError, ask_proxy, proxy_state
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_remember import remember
from ansible.module_utils.pdctl_return import returned_state, stay
from ansible.module_utils.pdctl_rows import Row

PAUSE_S = (0.05, 1.0)  # between looks: from the first to the last
# The proxy looks at every instance each 2 s (docs/proxy.md), and systemd restarts it itself after 10 s
# (RestartSec= of its unit): what is not there by then does not come.
PATIENCE_S = 30.0
RELOAD = "have the proxy read its list of instances again"
AGAIN = (
    "Let these requests end or raise serving.rollout.drain_timeout_s, then run the same command again: "
    "it goes on where this ended"
)


def drain(request: Row, dry: bool, did: list[str]) -> bool:
    """Reload, set the sides, undrain, then drain and wait. `did` grows as the work goes; True when there was
    any. Without a proxy nothing sends requests, so there is nothing to drain; one that systemd starts again
    would send them to whatever restarts meanwhile."""
    try:
        work = Drain(request, returned_state(request, START_S))
    except AbsentError as error:
        did.append(f"nothing to drain: {error}")
        return False
    except ControlError as error:
        raise Problem(f"the proxy cannot be asked to drain: {error}") from None
    if dry:
        did += work.intentions()
        return bool(did)
    try:
        for words in work.carry_out():
            did.append(words)
    except ControlError as error:
        raise Problem(f"the proxy does not drain as asked: {error}") from None
    finally:
        remember(request)
    return bool(did)


class Drain:
    """One call: what was asked, and what the proxy said before. Instances that it does not have are left out:
    it sends them nothing."""

    def __init__(self, request: Row, before: Row) -> None:
        self.request = request
        self.path: str = request["control"]
        self.lease_s: float = request["lease_s"]
        self.timeout_s: float = request["timeout_s"]
        self.before = before

    def known(self, key: str) -> list[str]:
        """The names asked for under `key` which the proxy has."""
        names = {member["name"] for member in self.before["members"]}
        return [name for name in self.request.get(key) or () if name in names]

    @property
    def drained(self) -> list[str]:
        return [member["name"] for member in self.before["members"] if member["drained"]]

    def intentions(self) -> list[str]:
        """What there is to do, a line each."""
        reload = [RELOAD] if self.request.get("reload") else []
        back = [name for name in self.known("undrain") if name in self.drained]
        away = [name for name in self.known("drain") if name not in self.drained]
        return [
            *reload,
            *(self.divided() if self.parts_differ() else []),
            *([f"undrain {', '.join(back)}"] if back else []),
            *([f"drain {', '.join(away)}"] if away else []),
        ]

    def parts_differ(self) -> bool:
        return self.request.get("sides") is not None and set(self.known("sides")) != set(self.before["sides"])

    def divided(self) -> list[str]:
        names = ", ".join(self.known("sides"))
        return [f"keep {names} apart from the others" if names else "pair all instances again"]

    def carry_out(self) -> Iterator[str]:
        """Each thing as soon as it is done."""
        new: list[str] = []
        if self.request.get("reload"):
            try:
                new = self.read_again()
                yield RELOAD
            except ControlError as error:
                if not error.body.get("restart"):
                    raise
                yield f"leave the new list of instances until the proxy is restarted: {error}"
        if self.parts_differ():
            self.tell("/sides", {"new": self.known("sides")})
            yield from self.divided()
        back = [name for name in self.known("undrain") if name in self.drained]
        if back:
            self.tell("/undrain", {"instances": back})
            yield f"undrain {', '.join(back)}"
        self.wait_up([*new, *self.known("undrain")])
        away = self.known("drain")
        if away:
            if self.request.get("others"):
                self.wait_for_others(away)
            self.tell("/drain", {"instances": away})
            remember(self.request)  # the wait may be cut off
            self.wait_idle(away)
            yield f"drain {', '.join(away)}"

    def read_again(self) -> list[str]:
        """The names of instances that came with it."""
        had = {member["name"] for member in self.before["members"]}
        self.before = self.tell("/reload")
        return [member["name"] for member in self.before["members"] if member["name"] not in had]

    def wait_up(self, names: list[str]) -> None:
        """Before others are drained, those that are back or new must really take requests."""
        for members in self.looks():
            away = [name for name in names if name in members and not members[name]["up"]]
            if not away:
                return
            if members.elapsed_s > PATIENCE_S:
                raise Problem(
                    f"the proxy has not reached {', '.join(away)} for {PATIENCE_S:g} s; nothing more was "
                    "drained. Can its host connect to theirs?"
                )

    def wait_for_others(self, away: list[str]) -> None:
        """Who is drained must not be the last of its role that serves; what is down anyway may be."""
        for members in self.looks():
            last = [
                row
                for name, row in members.items()
                if name in away and serves(row) and not members.others(row["role"], away)
            ]
            if not last:
                return
            if members.elapsed_s > PATIENCE_S:
                one = last[0]
                down = [n for n, row in members.items() if row["role"] == one["role"] and n not in away]
                raise Problem(
                    f"nothing was drained: {', '.join(down) or 'nobody else'} takes no requests, so without "
                    f"{', '.join(away)} no {one['role']} would serve. Mend or restart it first; where this "
                    "plan restarts it, begin with `pdctl apply --instance NAME`"
                )

    def wait_idle(self, names: list[str]) -> None:
        for members in self.looks():
            late = members.elapsed_s > self.timeout_s
            mine = [members[name] for name in names if name in members]
            forgotten = [member["name"] for member in mine if not member["drained"]]
            # Who has moved has its last requests at the former address; its idle_s counts from their end.
            mine += [member for member in members.leaving if member["name"] in names]
            busy: dict[str, int] = {}
            for member in mine:
                if member["idle_s"] is None:
                    needs = member["in_flight"] + member["held"]
                    busy[member["name"]] = busy.get(member["name"], 0) + needs
            if late and (busy or forgotten):
                self.give_up(names, busy, forgotten)
            if forgotten:
                self.tell_again(forgotten)
            elif not busy and all(member["idle_s"] >= self.lease_s for member in mine):
                return

    def tell_again(self, names: list[str]) -> None:
        """A proxy that was restarted meanwhile knows nothing of what it was told."""
        if self.request.get("sides") is not None:
            self.tell("/sides", {"new": self.known("sides")})
        self.tell("/drain", {"instances": names})

    def give_up(self, names: list[str], busy: dict[str, int], forgotten: list[str]) -> None:
        """Those that this call drained serve again: better an old configuration than nobody."""
        mine = [name for name in names if name not in self.drained]
        if mine:
            self.tell("/undrain", {"instances": mine})
        words = [f"{name} still has {_requests(max(count, 1))}" for name, count in busy.items()]
        words += [f"{name} does not stay drained" for name in forgotten]
        raise Problem(
            f"{', '.join(words)} after {self.timeout_s:g} s: all serve again, and nothing more was "
            f"restarted. {AGAIN}"
        )

    def tell(self, page: str, body: Row | None = None) -> Row:
        """The proxy obeys whoever spoke last: an earlier apply must not speak after a later one."""
        stay(self.request)
        return ask_proxy(self.path, "POST", page, body)

    def looks(self) -> Iterator[Members]:
        """What the proxy says, again and again; one that is restarting may be away for a moment."""
        begun = seen = time.monotonic()
        pause = PAUSE_S[0]
        while True:
            stay(self.request)
            try:
                state = proxy_state(self.path)
                seen = time.monotonic()
                yield Members(state, seen - begun)
            except AbsentError:
                if time.monotonic() - seen > PATIENCE_S:
                    raise
            time.sleep(pause)
            pause = min(pause * 1.5, PAUSE_S[1])


class Members(dict[str, Row]):
    """The proxy's members by name, and the seconds since the first look."""

    def __init__(self, state: Row, elapsed_s: float) -> None:
        super().__init__((member["name"], member) for member in state["members"])
        self.leaving: list[Row] = state["leaving"]
        self.elapsed_s = elapsed_s

    def others(self, role: str, away: list[str]) -> list[str]:
        """Those of the role that serve while `away` do not."""
        return [n for n, row in self.items() if row["role"] == role and n not in away and serves(row)]


def serves(member: Row) -> bool:
    return bool(member["up"] and not member["drained"])


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"
