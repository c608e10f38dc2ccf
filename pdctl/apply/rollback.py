"""A generation -> the look whose plan brings the hosts back to it, as they were told then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pdctl.apply.history import Past, held_by_all, spec_of
from pdctl.apply.look import Look, judge, look_for
from pdctl.apply.systems import without
from pdctl.desired.render import env_file
from pdctl.errors import ApplyError, ErrorGroup, HostError, PdctlError, SpecError
from pdctl.hosts.secrets import read_secrets
from pdctl.hosts.sessions import Sessions
from pdctl.plan import Action
from pdctl.spec.load import parse
from pdctl.spec.model import Cluster, Host, Secret
from pdctl.spec.model_files import model_files
from pdctl.state import File, Key, State, Venv
from pdctl.state.digest import secret_digest
from pdctl.topology import resolve
from pdctl.topology.model import Topology


@dataclass(frozen=True)
class Back:
    """A look for an earlier generation, and the text of its spec."""

    look: Look
    spec: str
    number: int


def look_back(now: Topology, folder: Path, sessions: Sessions, seen: Past, number: int) -> Back:
    """Plan the way back to generation `number`. `now` is the present spec: it says how hosts are reached.

    Raises ApplyError where something is not there any more that only an apply could make.
    """
    text = spec_of(sessions, seen, number)
    topology = _topology(now, text, number)
    state, unknown = held_by_all(sessions, seen, number)
    desired, unread = _with_secrets(state, now.cluster, folder)
    found = look_for(topology, folder, desired, sessions=sessions)
    if unknown:
        errors = {host: _error(host, error) for host, error in unknown.items()}
        found = judge(topology, folder, desired, without(found.seen, errors))
    if unread:
        found = judge(topology, folder, _left_alone(found, unread), found.seen)
    _refuse_missing(found, number)
    return Back(found, text, number)


def _topology(now: Topology, text: str, number: int) -> Topology:
    """The system as it was, its hosts reached as they are now."""
    try:
        spec = parse(text, f"generation {number}")
        then = resolve(spec, model_files(spec.model))
    except ErrorGroup as group:
        raise ErrorGroup(
            f"this pdctl does not take the spec of generation {number} any more",
            group.errors,
            hint="use the pdctl that made it: `pdctl history` names it",
        ) from None
    present = {host.name: host for host in now.spec.hosts}
    if gone := [host.name for host in spec.hosts if host.name not in present]:
        raise ApplyError(
            f"generation {number} has hosts that cluster.yaml does not name any more: {', '.join(gone)}",
            hint=f"pdctl history --spec {number} > old.yaml && pdctl rollback {number} old.yaml",
        )
    return replace(then, spec=_reached(spec, now.spec))


def _reached(then: Cluster, now: Cluster) -> Cluster:
    """Hosts that joined later are reached too: they held nothing."""
    before = {host.name: host for host in then.hosts}

    def host(each: Host) -> Host:
        was = before.get(each.name)
        return was.model_copy(update={"ssh": each.ssh, "address": each.address}) if was else each

    return then.model_copy(
        update={
            "ssh": now.ssh,
            "hosts": [host(each) for each in now.hosts],
            "generations": now.generations,
        }
    )


def _with_secrets(state: State, cluster: str, folder: Path) -> tuple[State, dict[Key, PdctlError]]:
    """No generation holds a secret: the present values are used, where they can be read."""
    found, unread = dict(state), dict[Key, PdctlError]()
    for key, file in state.items():
        if isinstance(file, File) and file.secret:
            try:
                values = read_secrets(dict(map(_reference, file.secret_env)), folder)
                found[key] = replace(file, digest=secret_digest(env_file(values).encode(), cluster))
            except SpecError as error:
                unread[key] = error
    return found, unread


def _reference(source: tuple[str, str]) -> tuple[str, Secret]:
    name, (kind, _, where) = source[0], source[1].partition(":")
    return name, Secret(from_env=where) if kind == "env" else Secret(from_file=where)


def _left_alone(found: Look, unread: Mapping[Key, PdctlError]) -> State:
    """A file that is as pdctl left it stays, whatever its values are."""
    desired = dict(found.desired)
    for key, error in unread.items():
        if key.host in found.seen.failures:
            continue
        now, recorded = found.seen.state.get(key), found.seen.recorded.get(key)
        if not isinstance(now, File) or not isinstance(recorded, File) or now.digest != recorded.digest:
            raise error
        wanted = desired[key]
        assert isinstance(wanted, File)
        desired[key] = replace(wanted, digest=now.digest)
    return desired


def _refuse_missing(found: Look, number: int) -> None:
    """A rollback installs nothing: it would not be what it was."""
    for change in found.plan.changes:
        if isinstance(change.desired, Venv) and change.action in (Action.CREATE, Action.UPDATE):
            what = "is gone" if change.action is Action.CREATE else f"is damaged ({', '.join(change.why)})"
            raise ApplyError(
                f"{change.desired.path} of generation {number} {what}",
                where=change.key.host,
                hint=f"install it anew: pdctl history --spec {number} > old.yaml && pdctl apply old.yaml",
            )


def _error(host: str, error: PdctlError) -> HostError:
    return HostError(error.message, where=host, hint=error.hint)
