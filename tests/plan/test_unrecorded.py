"""What is as wanted and in no record: a lost record is drift, what others put there is learned on the way."""

from __future__ import annotations

from pdctl.plan import Plan, make_plan
from pdctl.state import Directory, File, Key, Resource
from tests.plan.test_restarts import H, files_and_units, real

SHARED = Key(H, "directory:/opt/pdctl")


def wanted() -> dict[Key, Resource]:
    return {SHARED: Directory("/opt/pdctl"), **files_and_units()}


def plan(observed: dict[Key, Resource], recorded: dict[Key, Resource], **more: frozenset[Key]) -> Plan:
    return make_plan(real(), wanted(), observed, recorded, **more)


def learned(plan: Plan) -> set[Key]:
    return {key for step in plan.steps for key in step.keys}


def test_a_lost_record_is_drift_and_learned_anew_without_any_change() -> None:
    found = plan(wanted(), {})
    assert not found.empty and not found.changes and not found.restarts
    assert {drift.key for drift in found.drift} == learned(found) == wanted().keys()
    assert {drift.what for drift in found.drift} == {("not in the record",)}


def test_one_file_of_the_cluster_that_no_record_names_is_enough() -> None:
    file = Key(H, "file:/etc/pdctl/chat/decoder-0.env")
    found = plan(wanted(), {key: row for key, row in wanted().items() if key != file})
    assert [drift.key for drift in found.drift] == [file] and learned(found) == {file}


def test_an_edited_file_tells_of_a_lost_record_too() -> None:
    file = Key(H, "file:/etc/pdctl/chat/decoder-0.env")
    found = plan({file: File(file.id[5:], "sha256:9"), SHARED: Directory("/opt/pdctl")}, {})
    assert [drift.key for drift in found.drift] == [SHARED]


def test_what_others_put_there_is_no_drift_but_recorded_by_the_first_apply() -> None:
    found = plan({SHARED: Directory("/opt/pdctl")}, {})
    assert not found.drift and SHARED not in {change.key for change in found.changes}
    assert SHARED in learned(found)


def test_what_others_put_there_alone_is_no_work() -> None:
    found = plan(wanted(), files_and_units())
    assert found.empty and not found.steps


def test_what_an_interrupted_apply_was_at_is_told_as_that() -> None:
    found = plan(wanted(), {}, pending=frozenset(wanted()))
    assert {drift.what for drift in found.drift} == {("left unfinished by an interrupted apply",)}
