"""request -> a proxy that sends nothing to some instances, which then have been idle for long enough."""

from __future__ import annotations

import time

from ansible.module_utils.pdctl_control import AbsentError, ControlError, ask_proxy, proxy_state
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_rows import Row, Rows

PAUSE_S = (0.05, 1.0)  # between looks: from the first to the last
# The proxy looks at every instance each 2 s (docs/proxy.md); what it does not see by then it cannot reach.
UP_S = 30.0
AGAIN = (
    "end these requests or raise serving.rollout.drain_timeout_s, then run `pdctl apply` again: "
    "it goes on where this ended"
)


def drain(request: Row, dry: bool, did: list[str]) -> bool:
    """Set the sides, undrain, then drain and wait; `did` grows as the work goes. True when it changed the
    proxy. Without a proxy nothing sends requests, so there is nothing to drain."""
    try:
        work = Drain(request, proxy_state(request["control"]), did)
    except AbsentError as error:
        did.append(f"nothing to drain: {error}")
        return False
    except ControlError as error:
        raise Problem(f"the proxy cannot be asked to drain: {error}") from None
    if dry:
        did += work.intentions()
        return bool(work.intentions())
    try:
        return work.carry_out()
    except ControlError as error:
        raise Problem(f"the proxy does not drain as asked: {error}") from None


class Drain:
    """One call: what was asked, restricted to what the proxy knows, and what it said before."""

    def __init__(self, request: Row, before: Row, did: list[str]) -> None:
        members = {member["name"]: member for member in before["members"]}
        self.path: str = request["control"]
        self.lease_s: float = request["lease_s"]
        self.timeout_s: float = request["timeout_s"]
        self.did = did
        self.undrain = [name for name in request.get("undrain") or () if name in members]
        self.drain = [name for name in request.get("drain") or () if name in members]
        sides = request.get("sides")
        self.sides = None if sides is None else [name for name in sides if name in members]
        self.before = before
        self.drained = {name for name, member in members.items() if member["drained"]}
        asked = [*(request.get("drain") or ()), *(request.get("undrain") or ()), *(sides or ())]
        self.unknown = [name for name in dict.fromkeys(asked) if name not in members]

    def intentions(self) -> list[str]:
        """What there is to do, a line each."""
        lines = []
        if self.sides is not None and sorted(self.sides) != sorted(self.before["sides"]):
            some = ", ".join(self.sides)
            lines.append(f"keep {some} apart from the others" if some else "pair all instances again")
        back = [name for name in self.undrain if name in self.drained]
        lines += [f"undrain {', '.join(back)}"] if back else []
        away = [name for name in self.drain if name not in self.drained]
        return lines + ([f"drain {', '.join(away)}"] if away else [])

    def carry_out(self) -> bool:
        if self.unknown:
            self.did.append(f"the proxy sends nothing to {', '.join(self.unknown)} yet")
        if self.sides is not None:
            ask_proxy(self.path, "POST", "/sides", {"new": self.sides})
        if self.undrain:
            ask_proxy(self.path, "POST", "/undrain", {"instances": self.undrain})
            self.wait_up()
        if self.drain:
            ask_proxy(self.path, "POST", "/drain", {"instances": self.drain})
            self.wait_idle()
        intended = self.intentions()
        self.did += intended
        return bool(intended)

    def wait_up(self) -> None:
        """Before others are drained, those that are back must really take requests."""
        begun, pause = time.monotonic(), PAUSE_S[0]
        while away := [name for name, member in self.look(self.undrain).items() if not member["up"]]:
            if time.monotonic() - begun > UP_S:
                raise Problem(
                    f"the proxy cannot reach {', '.join(away)} for {UP_S:g} s; nothing more was drained. "
                    "Is there a firewall between the proxy's host and theirs?"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, PAUSE_S[1])

    def wait_idle(self) -> None:
        begun, pause = time.monotonic(), PAUSE_S[0]
        while True:
            members = self.look(self.drain)
            busy = [member for member in members.values() if member["in_flight"] + member["held"]]
            if not busy and all(member["idle_s"] >= self.lease_s for member in members.values()):
                return
            if busy and time.monotonic() - begun > self.timeout_s:
                self.give_up(busy)
            time.sleep(pause)
            pause = min(pause * 1.5, PAUSE_S[1])

    def look(self, names: list[str]) -> Rows:
        """The members as they are now; a proxy that was restarted meanwhile is told again."""
        found = self.present()
        members = {member["name"]: member for member in found["members"]}
        forgotten = [name for name in self.drain if name in members and not members[name]["drained"]]
        if names is self.drain and forgotten:
            if self.sides is not None:
                ask_proxy(self.path, "POST", "/sides", {"new": [n for n in self.sides if n in members]})
            found = ask_proxy(self.path, "POST", "/drain", {"instances": forgotten})
            members = {member["name"]: member for member in found["members"]}
        return {name: members[name] for name in names if name in members}

    def present(self) -> Row:
        """Its state; one that restarts may be away for a moment (RestartSec= of its unit is 10 s)."""
        deadline = time.monotonic() + UP_S
        while True:
            try:
                return proxy_state(self.path)
            except AbsentError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE_S[1])

    def give_up(self, busy: list[Row]) -> None:
        """Those that this call drained serve again: better an old configuration than nobody."""
        mine = [name for name in self.drain if name not in self.drained]
        if mine:
            ask_proxy(self.path, "POST", "/undrain", {"instances": mine})
        words = [f"{m['name']} still has {_requests(m['in_flight'] + m['held'])}" for m in busy]
        raise Problem(f"{', '.join(words)} after {self.timeout_s:g} s; nothing was restarted. {AGAIN}")


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"
