"""Restarts that only the plan knows of survive an apply that is cut off before it comes to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdctl.plan import Owed, Plan, make_plan
from pdctl.state import File, Key, Resource
from pdctl.topology import Topology, resolve
from tests.plan.test_restarts import H, files_and_units, key, unit, without_peers
from tests.topology.specs import cluster, hosts, serving

PREFILLER, DECODER = key("prefiller-0"), key("decoder-0")
NAME = f"{H}/{DECODER.id.removeprefix('unit:')}"


def with_peers() -> Topology:
    engine = {"kind": "simulator", "simulator": {"stale_peers": True}}
    return resolve(cluster(hosts=hosts(1), engine=engine, serving=serving(1, 1, 1)))


def plan(
    observed: dict[Key, Resource],
    recorded: dict[Key, Resource] | None = None,
    desired: dict[Key, Resource] | None = None,
    owed: tuple[Owed, ...] = (),
) -> Plan:
    return make_plan(
        with_peers(),
        files_and_units() if desired is None else desired,
        observed,
        files_and_units() if recorded is None else recorded,
        owed={debt.key: debt for debt in owed},
    )


def causes(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {restart.instance: restart.causes for restart in plan.restarts}


def test_a_prefiller_is_owed_its_restart_before_its_decoder_is_restarted() -> None:
    observed = files_and_units()
    observed[DECODER] = unit("decoder-0", "decoder", deviations=("argv differs",))
    first = plan(observed)
    assert [debt.key for debt in first.owed] == [PREFILLER]  # the decoder's own is written in its process
    # Cut off after the decoder: it runs as wanted and is recorded, the prefiller is the one of before.
    observed[DECODER] = replace(unit("decoder-0", "decoder"), invocation="i2")
    assert plan(observed, recorded=observed).empty
    second = plan(observed, recorded=observed, owed=first.owed)
    assert not second.empty and causes(second) == {"prefiller-0": first.owed[0].causes}
    assert [step.name for step in second.steps] == ["restart_1"]


def test_a_debt_is_paid_by_any_restart() -> None:
    observed = files_and_units()
    observed[PREFILLER] = replace(unit("prefiller-0", "prefiller"), invocation="i2")
    debt = Owed(PREFILLER, "i1", causes=("its peer decoder-0 restarts",))
    assert plan(observed, recorded=observed, owed=(debt,)).empty


def test_a_process_is_owed_its_restart_before_the_file_it_read_is_put_right() -> None:
    file = Key(H, "file:/etc/pdctl/chat/decoder-0.env")
    observed = files_and_units()
    observed[file] = File(file.id[5:], "sha256:9")
    observed[DECODER] = replace(unit("decoder-0", "decoder"), invocation="i2")
    owed = {debt.key: debt for debt in plan(observed).owed}
    assert owed[DECODER] == Owed(DECODER, "i2", causes=(f"was started with the edited {file.id[5:]}",))
    # Cut off after the file: it is right and recorded, the unit's row is that of before.
    observed[file] = files_and_units()[file]
    assert "decoder-0" not in causes(plan(observed))
    assert "decoder-0" in causes(plan(observed, owed=tuple(owed.values())))


def test_a_prefiller_remembers_a_decoder_that_left_until_it_comes_back() -> None:
    without = {k: r for k, r in files_and_units().items() if k != DECODER}
    gone = plan(files_and_units(), desired=without)
    assert gone.owed == (Owed(PREFILLER, "i1", peers=(NAME,)),) and not gone.restarts
    assert plan(without, recorded=without, desired=without, owed=gone.owed).empty
    back = plan(without, recorded=without, owed=gone.owed)
    assert causes(back) == {"prefiller-0": ("it may hold addresses of an earlier decoder-0",)}
    assert [step.name for step in back.steps] == ["decoder", "restart_1"]


def test_a_decoder_that_moves_to_another_host_is_another_peer() -> None:
    moved = {k: r for k, r in files_and_units().items() if k != DECODER}
    there = {**moved, Key("gpu02", DECODER.id): files_and_units()[DECODER]}
    gone = plan(files_and_units(), desired=there)
    assert gone.owed == (Owed(PREFILLER, "i1", peers=(NAME,)),)
    assert plan(there, recorded=there, desired=there, owed=gone.owed).empty
    assert causes(plan(there, recorded=there, owed=gone.owed)) != {}  # it comes back to where it was known


def test_a_decoder_that_was_never_there_restarts_no_prefiller() -> None:
    without = {k: r for k, r in files_and_units().items() if k != DECODER}
    assert causes(plan(without, recorded=without)) == {}


@pytest.mark.parametrize("left", ["decoder-0", "proxy"])
def test_without_stale_peers_nothing_is_owed_for_what_leaves(left: str) -> None:
    without = {k: r for k, r in files_and_units().items() if k != key(left)}
    assert make_plan(without_peers(), without, files_and_units(), files_and_units()).owed == ()
