"""Laws of the comparison between states."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pdctl.plan.diff import action, diff
from pdctl.plan.model import Action
from pdctl.state import Directory, File, Key, Package, Resource, State, Unit, User, Venv, difference, key_of
from pdctl.state.codec import resource_from_json, resource_to_json

names = st.sampled_from(["a", "b", "c"])
digests = st.sampled_from(["sha256:1", "sha256:2"])
resources: st.SearchStrategy[Resource] = st.one_of(
    st.builds(User, name=names, home=names),
    st.builds(Directory, path=names, mode=st.sampled_from(["0755", "0750"])),
    st.builds(File, path=names, digest=digests, mode=st.sampled_from(["0644", "0600"])),
    st.builds(Package, name=names, version=st.sampled_from([None, "1"]), hold=st.booleans()),
    st.builds(Venv, path=names, digest=digests, python=st.just("3.11")),
    st.builds(Unit, name=names, enabled=st.booleans(), active=st.sampled_from(["active", "failed"])),
)
states = st.lists(st.tuples(st.sampled_from(["h1", "h2"]), resources)).map(
    lambda rows: {key_of(host, r): r for host, r in rows}
)


def changes(desired: State, observed: State, recorded: State | None = None) -> list:  # type: ignore[type-arg]
    return list(diff(desired, observed, recorded or {}, contents={}))


def applied(desired: State, observed: State) -> dict[Key, Resource]:
    """What the hosts hold after every change was carried out."""
    after = dict(observed)
    for change in changes(desired, observed):
        if change.action is Action.DELETE:
            del after[change.key]
        else:
            after[change.key] = change.desired
    return after


@given(states, states)
def test_applying_a_plan_reaches_the_desired_state(desired: State, observed: State) -> None:
    after = applied(desired, observed)
    assert after.keys() == desired.keys()
    assert not any(difference(desired[key], after[key]) for key in desired)


@given(states)
def test_a_state_does_not_differ_from_itself(state: State) -> None:
    assert changes(state, state) == []


@given(states, states)
def test_a_second_apply_has_nothing_to_do(desired: State, observed: State) -> None:
    assert changes(desired, applied(desired, observed)) == []


@given(resources)
def test_a_resource_survives_json(resource: Resource) -> None:
    assert resource_from_json(resource_to_json(resource, full=True)) == resource


def test_absence_decides_the_action() -> None:
    file = File("/a", "sha256:1")
    assert action(None, None) is None
    assert action(file, None) is Action.CREATE
    assert action(None, file) is Action.DELETE
    assert action(file, replace(file, mode="0600")) is Action.UPDATE
    assert action(file, file) is None


def test_any_version_will_do_when_none_is_pinned() -> None:
    assert not difference(Package("libnuma1"), Package("libnuma1", "2.0.16-1"))
    assert difference(Package("libnuma1", "2.0.18-1"), Package("libnuma1", "2.0.16-1"))


def test_what_was_there_before_pdctl_is_forgotten_and_not_deleted() -> None:
    key = Key("h1", "directory:/opt/pdctl")
    [change] = diff({}, {key: Directory("/opt/pdctl")}, {}, contents={}, found_before={key})
    assert change.action is Action.FORGET


def test_what_is_recorded_but_gone_and_unwanted_is_forgotten() -> None:
    key = Key("h1", "file:/a")
    [change] = changes({}, {}, {key: File("/a", "sha256:1")})
    assert change.action is Action.FORGET


def test_drift_is_told_from_a_change_of_the_spec() -> None:
    key, as_left = Key("h1", "file:/a"), File("/a", "sha256:1")
    edited, wanted = replace(as_left, digest="sha256:9"), replace(as_left, digest="sha256:2")
    [drifted] = changes({key: as_left}, {key: edited}, {key: as_left})
    [asked] = changes({key: wanted}, {key: as_left}, {key: as_left})
    [removed] = changes({key: as_left}, {}, {key: as_left})
    assert (drifted.drift, asked.drift, removed.drift) == (True, False, True)


DROP_IN = "drop-in /etc/systemd/system/web.service.d/by-hand.conf"


def test_a_drop_in_that_goes_is_named_beside_what_it_did() -> None:
    key, want = Key("h1", "unit:web.service"), Unit("web.service", revision="r1")
    have = replace(want, deviations=("environment: DEBUG added", DROP_IN))
    [row] = changes({key: want}, {key: have})
    assert row.why == ("environment: DEBUG added", f"remove {DROP_IN}")
    [row] = changes({key: want}, {key: replace(want, deviations=(DROP_IN,))})
    assert (row.action, row.why) == (Action.UPDATE, (f"remove {DROP_IN}",))
    [row] = changes({}, {key: have})
    assert row.why == ("no longer in the spec", f"remove {DROP_IN}")
