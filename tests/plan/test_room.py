"""What stops before others start on its host: units whose port is needed, and those that left the spec."""

from __future__ import annotations

from dataclasses import replace

from pdctl.plan import Plan, make_plan
from pdctl.state import File, Key, Resource, State, Unit
from pdctl.state.digest import content_digest
from pdctl.topology import resolve
from tests.topology.specs import cluster, hosts, serving

H = "gpu01"
PORTS = {"decoder": 7200, "prefiller": 7100, "proxy": 9100}


def name(role: str) -> str:
    return role if role == "proxy" else f"{role}-0"


def key(role: str) -> Key:
    return Key(H, f"unit:pdctl-chat-{name(role)}.service")


def rows(more: str = "", **ports: int) -> dict[Key, Resource]:
    """One unit of each role, with `more` in its unit file."""
    found: list[Resource] = []
    for role, port in {**PORTS, **ports}.items():
        unit = f"pdctl-chat-{name(role)}.service"
        content = f"ExecStart=serve --port {port} {more}\n".encode()
        digest = content_digest(content)
        found.append(File(f"/etc/systemd/system/{unit}", digest, content=content))
        found.append(Unit(unit, revision=digest, instance=name(role), role=role, invocation="i1"))
    return {Key(H, resource.id): resource for resource in found}


def plan(desired: State, observed: State, recorded: State | None = None) -> Plan:
    contents = {k: r.content for k, r in observed.items() if isinstance(r, File) and r.content}
    topology = resolve(cluster(hosts=hosts(1), engine="simulator", serving=serving(1, 1, 1)))
    return make_plan(topology, desired, observed, recorded or observed, contents=contents)


def steps(done: Plan) -> dict[str, tuple[Key, ...]]:
    """The units of each."""
    found = {step.name: tuple(key for key in step.keys if key.id.startswith("unit:")) for step in done.steps}
    return {name: keys for name, keys in found.items() if keys}


def without(state: dict[Key, Resource], role: str) -> dict[Key, Resource]:
    return {k: r for k, r in state.items() if f"-{name(role)}." not in k.id}


def test_a_unit_that_holds_the_port_of_an_earlier_one_is_halted_and_starts_in_its_turn() -> None:
    without_proxy = without(rows(), "proxy")  # nobody is served: a role at a time
    found = steps(plan(rows(decoder=7100, prefiller=7200), without_proxy))
    assert found == {
        "stop": (key("prefiller"),),
        "decoder": (key("decoder"),),
        "prefiller": (key("prefiller"),),
        "proxy": (key("proxy"),),
    }


def test_ports_that_running_units_exchange_are_all_freed_first_and_nothing_is_answered_meanwhile() -> None:
    done = plan(rows(decoder=7100, prefiller=7200), rows())
    assert list(steps(done)) == ["stop", "decoder", "prefiller"]
    assert steps(done)["stop"] == (key("decoder"), key("prefiller"))
    assert "no other decoder serves" in next(step.outage for step in done.steps if step.name == "stop")


def test_a_port_that_a_new_unit_takes_over_is_freed_first() -> None:
    found = steps(plan(rows(decoder=7100, prefiller=7101), without(rows(), "decoder")))
    assert found["stop"] == (key("prefiller"),) and found["decoder"] == (key("decoder"),)


def test_units_that_restart_with_their_ports_are_not_halted() -> None:
    assert list(steps(plan(rows("--seed 7"), rows()))) == ["restart_1", "restart_2", "proxy"]


def test_ports_that_move_where_nobody_was_halt_nothing() -> None:
    assert list(steps(plan(rows(decoder=7201, prefiller=7101), rows()))) == ["restart_1", "restart_2"]


def cut_off(desired: dict[Key, Resource], old: dict[Key, Resource], *ports: int) -> State:
    """The files are new already, the processes are not; the prefiller's listens on `ports`."""
    observed = {k: old[k] if isinstance(r, Unit) else r for k, r in desired.items()}
    observed[key("prefiller")] = replace(old[key("prefiller")], ports=ports)  # type: ignore[arg-type]
    return observed


def test_an_older_process_whose_files_are_new_already_is_halted_for_the_ports_it_listens_on() -> None:
    """An apply was cut off between the files and the restart: no file tells any more what it holds."""
    desired = rows(decoder=7100, prefiller=7200)
    assert steps(plan(desired, cut_off(desired, rows(), 7100)))["stop"] == (key("prefiller"),)


def test_an_older_process_that_keeps_its_ports_is_not_halted_after_a_cut_off() -> None:
    desired = rows("--seed 7")
    found = steps(plan(desired, cut_off(desired, rows(), 7100, 41234)))
    assert list(found) == ["restart_1", "restart_2", "proxy"]


def test_what_left_the_spec_stops_first_when_an_engine_restarts_or_starts_again_on_its_host() -> None:
    restarted = plan(without(rows(decoder=7100), "prefiller"), rows())
    assert key("prefiller") in steps(restarted)["stop"]
    stopped = rows()
    stopped[key("decoder")] = replace(stopped[key("decoder")], active="inactive")  # type: ignore[arg-type]
    assert key("prefiller") in steps(plan(without(rows(), "prefiller"), stopped))["stop"]


def test_what_left_the_spec_serves_until_the_proxy_has_forgotten_it() -> None:
    desired = without(rows(), "prefiller") | {
        k: r for k, r in rows("--without prefiller-0").items() if "-proxy." in k.id
    }
    found = steps(plan(desired, rows()))
    assert list(found) == ["proxy", "delete"] and key("prefiller") in found["delete"]
