"""A generation -> the look whose plan brings the hosts back to it, as they were told then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pdctl.apply.consent import FLAG, allowing_reboots
from pdctl.apply.forgotten import refuse_forgotten
from pdctl.apply.history import Past, held_by_all, lock_of, spec_of
from pdctl.apply.look import Look, judge, look_for
from pdctl.apply.systems import without
from pdctl.desired.render import env_file
from pdctl.errors import ApplyError, ErrorGroup, HostError, PdctlError, SpecError
from pdctl.hosts.secrets import read_secrets
from pdctl.hosts.sessions import Sessions
from pdctl.plan import Action
from pdctl.plan.left_out import refuse_left_out
from pdctl.plan.reasons import Reasons
from pdctl.spec.load import parse
from pdctl.spec.model import Cluster, Host, Secret
from pdctl.spec.model_files import model_files
from pdctl.state import File, Key, Package, Resource, State, Venv, Weights, difference
from pdctl.state.digest import secret_digest
from pdctl.topology import resolve
from pdctl.topology.model import Topology


@dataclass(frozen=True)
class Back:
    """A look for an earlier generation, and the texts of its spec and lock."""

    look: Look
    spec: str
    number: int
    lock: str = ""


def look_back(
    now: Topology, folder: Path, sessions: Sessions, seen: Past, number: int, *, downgrades: bool = False
) -> Back:
    """Plan the way back to generation `number`. `now` is the present spec: it says how hosts are reached, and
    whether they may be rebooted. With `downgrades` the repositories' packages go back as well.

    Raises ApplyError where something is not there any more that only an apply could make, or where engines on
    hosts that were left out would not follow.
    """
    text = spec_of(sessions, seen, number)
    topology = allowing_reboots(_topology(now, text, number), now.spec.serving.rollout.allow_reboot)
    state, unknown = held_by_all(sessions, seen, number)
    refuse_forgotten(topology, state, unknown, number)
    desired, unread = _with_secrets(state, now.cluster, folder)
    found = look_for(topology, folder, desired, sessions=sessions)
    if unknown:
        errors = {host: _error(host, error) for host, error in unknown.items()}
        found = judge(topology, folder, desired, without(found.seen, errors))
    if unread:
        found = judge(topology, folder, _left_alone(found, unread), found.seen)
    found = replace(found, downgrades=downgrades)
    refuse_missing(found, number)
    refuse_left_out(topology, found.plan, found.desired, found.seen.contents, Reasons({}))
    return Back(found, text, number, lock_of(sessions, seen, number))


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


def refuse_missing(found: Look, number: int) -> None:
    """A rollback installs nothing: what it would have to install, and what is there in another version, is an
    error. Raises ApplyError, or ErrorGroup where it is more than one thing."""
    errors = [
        ApplyError(f"{what} of generation {number} {lack}", where=change.key.host, hint=_anew(number))
        for change in found.plan.changes
        if change.action in (Action.CREATE, Action.UPDATE) and change.desired is not None
        for what, lack in _missing(change.desired, change.observed, change.why, found.downgrades)
    ]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        alone = [ApplyError(error.message, where=error.where) for error in errors]
        raise ErrorGroup(
            "a rollback installs nothing, and some of it is not there any more", alone, hint=_anew(number)
        )


def _missing(
    want: Resource, have: Resource | None, why: tuple[str, ...], downgrades: bool
) -> Iterator[tuple[str, str]]:
    """What a rollback cannot put right by itself, and what is the matter with it. Packages that are held go
    back to their version where that is allowed.

    What comes out of the bundle needs the bundle again, be it for its mode alone.
    """
    if isinstance(want, Venv) and isinstance(have, Venv) and not difference(replace(want, proof=""), have):
        return  # it only has to be tried, which installs nothing
    if isinstance(want, Venv | Weights) or (isinstance(want, File) and want.source):
        yield want.path, "is gone" if have is None else f"is damaged ({', '.join(why)})"
    if isinstance(want, Package):
        name = f"package {want.name}" + (f" {want.version}" if want.version else "")
        if not isinstance(have, Package):
            yield name, "is not installed any more"
        elif want.version not in (None, have.version) and not (downgrades and want.hold):
            flag = f"; pdctl rollback {FLAG} takes it back" if want.hold else ""
            yield name, f"is installed as {have.version}{flag}"
        elif want.deb:  # of the others a hold is put right, which needs nothing
            yield name, f"is not as it was ({', '.join(why)})"


def _anew(number: int) -> str:
    return f"install it anew: pdctl history --spec {number} > old.yaml && pdctl apply old.yaml"


def _error(host: str, error: PdctlError) -> HostError:
    return HostError(error.message, where=host, hint=error.hint)
