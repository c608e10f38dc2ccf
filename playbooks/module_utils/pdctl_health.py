"""Units just started -> all of them serve, or one clear reason why not, with the journal's last lines."""

from __future__ import annotations

import http.client
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from ansible.module_utils.pdctl_audience import stay_for_audience
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_observe_units import activity, members, unit_states
from ansible.module_utils.pdctl_process import bytes_read, loaded_twice, short_limits
from ansible.module_utils.pdctl_rows import Row
from ansible.module_utils.pdctl_sockets import other_holder

RESTARTS_ALLOWED = 2  # a third crash in a row is no longer bad luck
SETTLED_S = 1.0  # without a health URL: this long running in one invocation
ANSWER_S = 5.0
DEFAULT_LIMIT_S = 60
PAUSE_S = (0.1, 2.0)  # between looks: from the first to the last
JOURNAL_LINES = 20
UCX = "libucp"
ENDED = "ended before it was healthy"


class Unhealthy(Problem):
    """`why` says of units, in the past, what kept them from being healthy: the record keeps it."""

    def __init__(self, message: str, journal: dict[str, list[str]], why: dict[str, str]) -> None:
        super().__init__(message)
        self.journal = journal
        self.why = why


def wait_healthy(
    rows: list[Row], invocations: dict[str, str], touched: set[str], served: set[str]
) -> dict[str, float]:
    """`invocations`: those before the work, which a touched unit must have left. Ends at a hopeless unit.

    `served` grows by each unit that is found healthy. Returns the seconds it took for each that was touched.
    """
    ours = frozenset(row["name"] for row in rows)
    waiting = [Wait(row, invocations.get(row["name"], ""), row["name"] in touched, ours) for row in rows]
    begun = time.monotonic()
    pause = PAUSE_S[0]
    took: dict[str, float] = {}
    while waiting:
        stay_for_audience()
        states = unit_states([wait.name for wait in waiting])
        answers = answers_of([wait.url for wait in waiting if wait.may_serve(states[wait.name])])
        elapsed = time.monotonic() - begun
        still = [wait for wait in waiting if not wait.is_over(states[wait.name], answers, elapsed)]
        took.update((wait.name, round(elapsed, 1)) for wait in waiting if wait.touched and wait not in still)
        served.update(wait.name for wait in waiting if wait not in still)
        waiting = still
        if waiting:
            time.sleep(pause)
            pause = min(pause * 1.5, PAUSE_S[1])
    return took


class Wait:
    """One unit on its way to health."""

    def __init__(self, row: Row, left: str, touched: bool, ours: frozenset[str] = frozenset()) -> None:
        self.name = row["name"]
        self.url = row.get("health_url") or ""
        self.limit = row.get("health_s") or DEFAULT_LIMIT_S
        self.left = left
        self.touched = touched
        self.row = row
        self.ours = ours  # started together: one may still hold what another one will get
        self.restarts = -1
        self.settling = ("", 0.0)
        self.seen = "not started yet"

    def may_serve(self, state: dict[str, str]) -> bool:
        """The old process must not answer for the new one."""
        left = not self.touched or state["InvocationID"] != self.left
        return left and not is_queued(state) and activity(state) == "active"

    def is_over(self, state: dict[str, str], answers: dict[str, str], elapsed: float) -> bool:
        """True when it serves; raises Unhealthy when it will not."""
        self.refuse_hopeless(state)
        if self.may_serve(state) and self.serves(state, answers, elapsed):
            self.refuse_short_limits(state)
            self.refuse_two_ucx(state)
            return True
        if elapsed > self.limit:
            late = f"did not become healthy in {self.limit} s"
            seen = f"{self.seen}{self.loading(state)}"
            raise self.unhealthy(f"not healthy within {self.limit} s: {seen}", late)
        return False

    def refuse_short_limits(self, state: dict[str, str]) -> None:
        """What systemd itself was not given it cannot give on: the unit asks for it, the process lacks it."""
        short = short_limits(self.row, int(state["MainPID"] or 0))
        if short:
            where = "what lowers it shows `systemctl cat`, or systemd itself has no more on this host"
            raise self.unhealthy(f"{'; '.join(short)}: {where}", short[0])

    def refuse_two_ucx(self, state: dict[str, str]) -> None:
        """It answers, and would hang or crash on the first KV that moves (NIXL issue 1668)."""
        twice = loaded_twice(members(state["ControlGroup"]), UCX)
        if twice:
            where = (
                "take the other one off LD_LIBRARY_PATH and LD_PRELOAD (`systemctl show-environment`, too)"
            )
            late = "has two UCX loaded in one process"
            raise self.unhealthy(f"{late}, {' and '.join(twice)}: {where}", late)

    def loading(self, state: dict[str, str]) -> str:
        """A slow load is no failure of the engine: how far it has come."""
        alive = state["ActiveState"] == "active" and self.url
        read = bytes_read(members(state["ControlGroup"])) if alive else 0
        return f"; still loading, {read / 1e9:.1f} GB read" if alive else ""

    def refuse_hopeless(self, state: dict[str, str]) -> None:
        if is_queued(state):
            return
        self.seen = f"systemd says {activity(state)}"
        self.refuse_taken_port(state)
        if state["ActiveState"] in ("failed", "inactive"):
            raise self.unhealthy(f"it has ended ({state['SubState']}, result {state['Result']})", ENDED)
        restarts = int(state["NRestarts"] or 0)
        self.restarts = restarts if self.restarts < 0 else self.restarts
        if restarts - self.restarts > RESTARTS_ALLOWED:
            raise self.unhealthy(
                f"it ended again and again after its start ({restarts - self.restarts} times)", ENDED
            )

    def refuse_taken_port(self, state: dict[str, str]) -> None:
        """Its process has ended and somebody else has its port: it would end again."""
        ended = state["ActiveState"] in ("failed", "inactive") or state["SubState"] == "auto-restart"
        if not ended or not self.url:
            return
        reason, holder = other_holder(self.url, self.name, 0)
        if holder and holder not in self.ours:
            raise self.unhealthy(reason, reason)

    def serves(self, state: dict[str, str], answers: dict[str, str], elapsed: float) -> bool:
        if self.url:
            self.seen = answers[self.url]
            if self.seen == "200":
                self.seen, _ = other_holder(self.url, self.name, int(state["MainPID"] or 0))
                return not self.seen
            return False
        if self.touched and self.settling[0] != state["InvocationID"]:
            self.settling = (state["InvocationID"], elapsed)
        return not self.touched or elapsed - self.settling[1] >= SETTLED_S

    def unhealthy(self, reason: str, why: str) -> Unhealthy:
        return Unhealthy(f"{self.name}: {reason}", {self.name: journal(self.name)}, {self.name: why})


def is_queued(state: dict[str, str]) -> bool:
    return state["Job"] not in ("", "0")


def answers_of(urls: list[str]) -> dict[str, str]:
    """One GET of each, at the same time: a hanging one must not delay the others."""
    asked = sorted({url for url in urls if url})
    if len(asked) < 2:
        return {url: answer(url) for url in asked}
    with ThreadPoolExecutor(len(asked)) as pool:
        return dict(zip(asked, pool.map(answer, asked)))


def answer(url: str) -> str:
    """`200`, or why not; straight to the host, no proxy."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=ANSWER_S)
    try:
        connection.request("GET", parts.path or "/")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{url} does not answer: {error}"
    finally:
        connection.close()
    return "200" if status == 200 else f"{url} answers {status}"


def journal(name: str) -> list[str]:
    done = subprocess.run(
        ["journalctl", "--unit", name, "--lines", str(JOURNAL_LINES), "--no-pager", "--output", "cat"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace").splitlines()
