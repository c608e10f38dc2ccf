"""When files of running instances are put: in the step in which what reads them restarts."""

from __future__ import annotations

from pathlib import Path

from pdctl.apply.requests import Order, host_variables
from pdctl.plan import Plan, make_plan
from pdctl.plan.belonging import instance_of_key
from pdctl.state import File, Unit
from tests.apply.test_requests import META, decoded, supply
from tests.plan.changes import SPEC, Edit, edit


def files(plan: Plan) -> dict[str, list[str]]:
    """By step, the last part of each path."""
    found = {
        step.name: sorted(key.id.rpartition("/")[2] for key in step.keys if key.id.startswith("file:"))
        for step in plan.steps
    }
    return {name: some for name, some in found.items() if some}


def of(instance: str) -> list[str]:
    return [f"{instance}.env", f"pdctl-chat-{instance}.service"]


def test_what_one_engine_reads_is_put_in_the_call_that_restarts_it() -> None:
    done = edit(("NCCL_DEBUG: WARN", "NCCL_DEBUG: INFO"))
    assert files(done.plan) == {"restart_1": of("decoder-0"), "restart_2": of("decoder-1")}
    order = Order(done.plan, done.desired, done.observed, META, supply(done.desired), {}, Path("/spec"))
    asked = decoded(host_variables(order)["h2"]["pdctl_restart_1"])
    assert [row["path"].rpartition("/")[2] for row in asked["put"]] == of("decoder-0")
    assert [row["name"] for row in asked["units"]] == ["pdctl-chat-decoder-0.service"]


def test_what_does_not_run_gets_its_files_with_all_that_is_shared() -> None:
    done = edit(("count: 2\n    max", "count: 3\n    max"), ("NCCL_DEBUG: WARN", "NCCL_DEBUG: INFO"))
    found = files(done.plan)
    assert set(of("decoder-2")) <= set(found["put"]) and "decoder-2.lmcache.yaml" in found["put"]
    assert not {*of("decoder-0"), *of("decoder-1")} & set(found["put"])


def test_the_proxys_list_waits_for_its_step_unless_it_is_told_to_read_it_before() -> None:
    more = files(edit(("count: 2\n    max", "count: 3\n    max")).plan)
    assert more["proxy"] == ["proxy.json"] and "proxy.json" not in more["put"]
    moved = edit(("chunk_size: 32}", "chunk_size: 32}\n  ports: {decoder: 7250}"))
    assert any(step.reload for step in moved.plan.steps) and files(moved.plan)["put"] == ["proxy.json"]


def test_what_several_read_is_put_before_all_of_them() -> None:
    spec = SPEC + "secrets:\n  HF_TOKEN: {from_env: HF_TOKEN}\n"
    done = edit(("NCCL_DEBUG: WARN", "NCCL_DEBUG: INFO"), spec=spec)
    plan = again_with_another_secret(done)
    assert files(plan)["put"] == ["secrets.env", "secrets.env"]
    assert files(plan)["restart_1"] == of("decoder-0")


def again_with_another_secret(done: Edit) -> Plan:
    before = {
        key: File(row.path, "another", secret=True) if isinstance(row, File) and row.secret else row
        for key, row in done.observed.items()
    }
    return make_plan(done.topology, done.desired, before, before)


def test_a_host_that_has_only_files_of_running_engines_to_put_gets_no_play_for_them() -> None:
    """On 8 hosts a change of one line costs one play less, not one more."""
    names = [step.name for step in edit(("max_num_seqs: 64", "max_num_seqs: 128")).plan.steps]
    assert names == ["drain_1", "restart_1", "drain_2", "restart_2", "undrain"]


def test_every_changed_thing_is_in_one_step() -> None:
    done = edit(("count: 2\n    max", "count: 3\n    max"), ("NCCL_DEBUG: WARN", "NCCL_DEBUG: INFO"))
    keys = [key for step in done.plan.steps if step.kind != "drain" for key in step.keys]
    assert len(keys) == len(set(keys)) and {change.key for change in done.plan.changes} <= set(keys)
    units = {row.instance: key.host for key, row in done.desired.items() if isinstance(row, Unit)}
    for step in done.plan.steps:
        if step.name.startswith("restart"):
            assert {units[instance_of_key("chat", key)] for key in step.keys} == {k.host for k in step.keys}
