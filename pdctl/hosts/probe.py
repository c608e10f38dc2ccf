"""Cluster x desired -> Observation: one round trip to every host, all at once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdctl.desired.layout import BUNDLE, record_path
from pdctl.errors import HostError, PdctlError
from pdctl.hosts.answer import Answer, parse_answer
from pdctl.hosts.complaints import complaint
from pdctl.hosts.observation import Observation, RecordMeta
from pdctl.hosts.parallel import on_each
from pdctl.hosts.probe_source import probe_answer, probe_program
from pdctl.hosts.sessions import Reply, Sessions, sessions_for
from pdctl.spec.model import Cluster
from pdctl.state import Key, Resource, State, key_of
from pdctl.state.codec import resource_to_json

CONTENT_LIMIT = 65536  # bytes of a file that are worth a text diff
SHOWN = 5  # lines of what could not be read
_UNREAD = "look at that on the host"
_ROOT = "set `become: true` in its ssh section, so that sudo is used, or log in as root"
_RECORD = "restore it from a backup: without it nobody knows what pdctl put there"
Progress = Callable[[str, PdctlError | None], None]


def probe(
    cluster: Cluster,
    desired: State,
    folder: Path,
    *,
    progress: Progress | None = None,
    timeout_s: float = 60.0,
    sessions: Sessions | None = None,
    claims: Mapping[str, Any] | None = None,
    deep: Mapping[str, Any] | None = None,
) -> Observation:
    """Look at every host of the spec that lies in `folder`; one that cannot be looked at stops no other.

    With `sessions` their connections are used, and stay open. `claims` say what ports and GPUs are for
    (`topology.claims`): then the hosts tell who else is on them. `deep` asks a host for what takes it longer.
    """
    rows = _rows_by_host(desired)
    answers: dict[str, Answer] = {}
    failures: dict[str, PdctlError] = {}
    with contextlib.ExitStack() as stack:
        connected = sessions or stack.enter_context(sessions_for(cluster, folder, keep=0))

        def look(host: str) -> Answer:
            more = (claims or {}).get(host), (deep or {}).get(host)
            asked = request(cluster.cluster, rows.get(host, []), *more)
            return ask(connected, host, asked, timeout_s)

        for host, outcome in on_each({host: host for host in connected.hosts}, look):
            if isinstance(outcome, PdctlError):
                failures[host] = outcome
            else:
                answers[host] = outcome
            if progress:
                progress(host, failures.get(host))
    # In the order of the spec, whoever answered first.
    return observation(answers, {host: failures[host] for host in connected.hosts if host in failures})


def request(cluster: str, rows: list[dict[str, Any]], claims: Any = None, deep: Any = None) -> dict[str, Any]:
    """What `pdctl_observe.observe` is asked."""
    return {
        "cluster": cluster,
        "record": record_path(cluster),
        "bundle": BUNDLE,
        "content_limit": CONTENT_LIMIT,
        "resources": rows,
        **({"claims": claims} if claims else {}),
        **({"deep": deep} if deep else {}),
    }


def ask(sessions: Sessions, host: str, asked: Mapping[str, Any], timeout_s: float) -> Answer:
    """One host's answer."""
    reply = sessions.run(host, probe_program(asked).encode(), timeout_s, "look")
    answer = parse_answer(host, answered(reply, "the probe"))
    _refuse_closed(reply, answer)
    _refuse_guesses(host, asked["record"], answer.errors)
    return answer


def answered(reply: Reply, what: str) -> Any:
    """What a program of ours printed; whatever kept it from that is an error of its host."""
    if known := complaint(reply.reach, reply.user, reply.result):
        raise known
    try:
        return probe_answer(reply.result.out.decode(errors="replace"))
    except (HostError, json.JSONDecodeError) as error:
        said = reply.result.last_words or str(error)
        raise HostError(
            f"{what} failed (exit status {reply.result.rc}): {said}", where=reply.reach.name
        ) from None


def _refuse_closed(reply: Reply, answer: Answer) -> None:
    """Nothing is wrong with what only root may read but the login."""
    closed = [line for line in answer.errors if "Permission denied" in line]
    if closed and not answer.facts.root:
        raise HostError(
            f"{reply.user} is not root there and may not read all of what pdctl keeps: {closed[0]}",
            where=reply.reach.name,
            hint=_ROOT,
        )


def _refuse_guesses(host: str, record: str, errors: Sequence[str]) -> None:
    """What could not be read would look absent, and the plan would create what is there."""
    for line in errors:
        if line.startswith(f"{record}: "):
            raise HostError(f"its record cannot be used: {line}", where=host, hint=_RECORD)
    if errors:
        shown = "; ".join(errors[:SHOWN]) + (f"; and {len(errors) - SHOWN} more" if errors[SHOWN:] else "")
        raise HostError(
            f"it cannot be observed, so nothing is planned there: {shown}", where=host, hint=_UNREAD
        )


def observation(answers: Mapping[str, Answer], failures: Mapping[str, PdctlError]) -> Observation:
    return Observation(
        state=_keyed({host: answer.resources for host, answer in answers.items()}),
        recorded=_keyed({host: a.record.rows for host, a in answers.items() if a.record}),
        records={host: _meta(answer) for host, answer in answers.items() if answer.record},
        contents={
            Key(host, f"file:{path}"): data
            for host, a in answers.items()
            for path, data in a.contents.items()
        },
        facts={host: answer.facts for host, answer in answers.items()},
        bundle={host: answer.bundle for host, answer in answers.items()},
        notices={host: tuple(answer.notes) for host, answer in answers.items() if answer.notes},
        failures=failures,
        strays={host: tuple(answer.strays) for host, answer in answers.items() if answer.strays},
        foreign={host: tuple(answer.foreign) for host, answer in answers.items() if answer.foreign},
        kept={host: answer.kept for host, answer in answers.items() if answer.kept},
    )


def _rows_by_host(desired: State) -> dict[str, list[dict[str, Any]]]:
    """Full rows but for the contents, which only the controller compares."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for key, resource in sorted(desired.items()):
        row = resource_to_json(resource, full=True)
        row.pop("content", None)
        rows.setdefault(key.host, []).append(row)
    return rows


def _keyed(rows: Mapping[str, list[Resource]]) -> dict[Key, Resource]:
    return {key_of(host, resource): resource for host, some in rows.items() for resource in some}


def _meta(answer: Answer) -> RecordMeta:
    record = answer.record
    assert record is not None
    made = zip(record.rows, record.flags, strict=True)
    return RecordMeta(
        record.applied_at,
        record.by,
        record.pdctl,
        record.spec_digest,
        created={row.id: flag.created for row, flag in made},
        pending={entry.id: entry.created for entry in record.pending},
        unproven={entry.id: entry.why for entry in record.pending if entry.why},
        owed=record.owed,
        timings=record.timings,
        reboot=record.reboot,
    )
