"""Plans that operators keep, narrow and read: exactly that or nothing, and others are left alone."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.line import CONFIG, Line, changed, line_on_hosts, unit
from tests.labs import until

pytestmark = pytest.mark.hosts

D0, D1, P0 = (unit(name) for name in ("decoder-0", "decoder-1", "prefiller-0"))
VERBOSE = {"decoders": {"count": 2, "env": {"NCCL_DEBUG": "INFO"}}}
STALE = {"engine": {"kind": "simulator", "simulator": {"stale_peers": True}}}
UUID = "GPU-00000000-1111-2222-3333-444444444444"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with line_on_hosts(tmp_path_factory) as line:
        yield line


@pytest.fixture
def line(hosts: Line) -> Line:
    """Both hosts are as SPEC says when the test begins, and are remembered so."""
    hosts.broken = True  # the test before this one may have applied another spec
    hosts.mend()
    return hosts


def plan_of(line: Line, *words: str) -> Path:
    ran = line.pdctl("diff", "--out", "plan.json", *words).must()
    assert ran.err.endswith("Wrote plan.json; `pdctl apply plan.json` carries out exactly this\n")
    return line.folder / "plan.json"


def test_a_kept_plan_is_carried_out_exactly(line: Line) -> None:
    line.write(**VERBOSE)
    kept = json.loads(plan_of(line).read_text())
    assert stat.S_IMODE((line.folder / "plan.json").stat().st_mode) == 0o600
    lives = line.lives()
    done = line.pdctl("apply", "plan.json", "--yes", "--json").must().json
    assert [c["id"] for c in done["plan"]["changes"]] == [c["id"] for c in kept["changes"]]
    assert done["proof"]["ok"] and changed(lives, line.lives()) == {"decoder-0", "decoder-1"}
    assert line.diff()["empty"]
    again = line.pdctl("apply", "plan.json", "--yes").must(1)
    assert "the hosts are not as they were when it was made" in again.err


@pytest.mark.parametrize(
    ("script", "moved"),
    [
        (f"echo '# by hand' >> {CONFIG}/decoder-0.lmcache.yaml", f"h2 file {CONFIG}/decoder-0.lmcache.yaml"),
        (f"systemctl restart {D0}", f"h2 unit {D0}"),
    ],
)
def test_a_kept_plan_is_refused_after_a_host_has_moved(line: Line, script: str, moved: str) -> None:
    line.write(**VERBOSE)
    plan_of(line)
    line.inside(script, "h2")
    lives = line.lives()
    ran = line.pdctl("apply", "plan.json", "--yes").must(1)
    assert moved in ran.err and ran.err.endswith("hint: make a new one: pdctl diff --out plan.json\n")
    assert line.lives() == lives and "Put users" not in ran.err


def test_a_kept_plan_is_refused_after_its_spec_has_changed(line: Line) -> None:
    line.write(**VERBOSE)
    plan_of(line)
    line.write()
    assert (
        "cluster.yaml has changed since it was made" in line.pdctl("apply", "plan.json", "--yes").must(1).err
    )


def test_one_instance_is_changed_and_every_other_process_stays(line: Line) -> None:
    line.write(**VERBOSE)
    lives = line.lives()
    done = line.apply("--instance", "decoder-1", "--json").json
    assert changed(lives, line.lives()) == {"decoder-1"} and done["proof"]["ok"]
    assert {c["instance"] for c in done["plan"]["changes"]} == {"decoder-1"}
    rest = line.diff()
    assert {c["instance"] for c in rest["changes"]} == {"decoder-0"} and rest["drift"] == []
    assert [f["field"] for f in rest["fields"]] == ["serving.decoders.env.NCCL_DEBUG"]
    within = line.pdctl("diff", "--instance", "decoder-1", "--exit-code").must()
    assert within.out == "Nothing to do within --instance decoder-1: `line` is as its spec says\n"
    line.apply("--no-verify")
    assert changed(lives, line.lives()) == {"decoder-0", "decoder-1"} and line.diff()["empty"]


def test_a_kept_plan_keeps_its_targets_and_does_not_mind_what_moves_elsewhere(line: Line) -> None:
    line.write(**VERBOSE)
    plan_of(line, "--instance", "decoder-1")
    line.inside(f"systemctl restart {D0}", "h2")
    lives = line.lives()
    line.pdctl("apply", "plan.json", "--yes", "--no-verify").must()
    assert changed(lives, line.lives()) == {"decoder-1"}


def test_prefillers_with_stale_peers_come_along_and_are_named(line: Line) -> None:
    line.write(STALE)
    line.apply("--no-verify")
    line.write(STALE, **VERBOSE)
    lives = line.lives()
    shown = line.pdctl("diff", "--instance", "decoder-1", "--brief").must().out
    because = "LMCache never renews a peer, and decoder-1 restarts"
    assert f"Beyond --instance decoder-1:\n  + prefiller-0 on h1 comes along: {because}\n" in shown
    line.apply("--instance", "decoder-1")
    assert changed(lives, line.lives()) == {"decoder-1", "prefiller-0"}


def test_an_instance_more_is_put_on_the_proxys_list_alone(line: Line) -> None:
    line.write(decoders={"count": 3, "env": {"NCCL_DEBUG": "INFO"}})
    lives = line.lives()
    done = line.apply("--instance", "decoder-2", "--json").json
    assert done["plan"]["targets"]["pulled"][0]["instance"] == "proxy"
    assert changed(lives, line.lives()) == {"decoder-2"} and done["plan"]["radius"]["reloads"] == ["proxy"]


def test_the_next_runtime_is_put_in_place_while_all_serve(line: Line) -> None:
    script = "rm /opt/pdctl/venvs/simulator-*/lib/python3.11/site-packages/aiohttp/py.typed"
    line.inside(script, "h2")
    lives = line.lives()
    ran = line.apply("--layer", "runtime", "--host", "h2", "--json").json
    assert [c["layer"] for c in ran["plan"]["changes"]] == ["runtime"] and ran["plan"]["restarts"] == []
    assert line.lives() == lives and line.diff()["empty"]


def test_configuration_is_put_in_place_while_all_serve_and_the_next_apply_restarts(line: Line) -> None:
    line.write(**VERBOSE)
    lives = line.lives()
    ran = line.apply("--layer", "config", "--json").json
    assert (
        ran["plan"]["changes"] and ran["plan"]["restarts"] == [] and ran["plan"]["radius"]["restarts"] == []
    )
    assert line.lives() == lives
    assert not [row for rows in ran["did"].values() for row in rows if "restart" in row]
    again = line.diff()
    assert {row["instance"] for row in again["restarts"]} == {"decoder-0", "decoder-1"}
    line.apply()
    assert changed(lives, line.lives()) == {"decoder-0", "decoder-1"}


def test_names_that_nothing_has_are_refused(line: Line) -> None:
    ran = line.pdctl("apply", "--instance", "decoder-7", "--yes").must(1)
    assert ran.err == (
        "error: there is no instance `decoder-7`\nhint: there are: decoder-0, decoder-1, prefiller-0, proxy\n"
    )


def drift(line: Line, status: int) -> Any:
    return line.pdctl("diff", "--drift-only", "--exit-code", "--json").must(status).json


def test_drift_alone_says_nothing_of_the_spec_and_ends_with_2(line: Line) -> None:
    line.write(**VERBOSE)
    assert drift(line, 0)["empty"] and line.pdctl("diff", "--exit-code").must(2)
    assert line.pdctl("diff", "--drift-only").must().out == "`line`: nothing changed outside pdctl\n"
    line.inside(f"systemctl stop {D0}", "h2")
    found = drift(line, 2)
    assert [(row["host"], row["instance"]) for row in found["drift"]] == [("h2", "decoder-0")]
    shown = line.pdctl("diff", "--drift-only").must().out
    assert shown.endswith("\n\n`line`: 1 drifted\n") and "Changes:" not in shown


def test_somebody_on_our_port_is_told_and_left_alone(line: Line) -> None:
    line.inside(f"systemctl stop {D0}", "h2")
    serve = "systemd-run -q --unit byhand python3 -m http.server 7200 --bind 198.18.0.11"
    line.inside(serve, "h2")
    until(lambda: ":7200 " in line.inside("ss -ltn", "h2"))
    [row] = drift(line, 2)["foreign"]
    assert (row["host"], row["kind"], row["subject"], row["instance"]) == ("h2", "port", "7200", "decoder-0")
    assert "port 7200 (decoder-0) is held by python3, pid " in row["what"] and "byhand.service" in row["what"]
    line.inside("systemctl is-active byhand && systemctl stop byhand", "h2")
    line.apply("--no-verify")
    assert drift(line, 0)["foreign"] == []


def test_a_unit_that_keeps_ending_is_told(line: Line) -> None:
    state = f"$(systemctl show --value -p NRestarts {D1}) $(systemctl is-active {D1})"
    kill = f"kill -9 $(systemctl show --value -p MainPID {D1})"
    for count in (1, 2, 3):  # until systemd has seen it end, a killed process stays its unit's MainPID
        line.inside(f'{kill}; until test "{state}" = "{count} active"; do sleep 0.1; done')
    told = [row for row in drift(line, 2)["foreign"] if row["kind"] == "flapping"]
    assert [row["what"] for row in told] == [f"systemd has started {D1} again 3 times: it keeps ending"]


NVIDIA_SMI = f"""#!/bin/sh
case "$*" in
*compute-apps*) echo '{UUID}, '$(cat /tmp/foreign)', 4096' ;;
*) echo '0, {UUID}, NVIDIA H200, 143771, 4096, 580.82.07, 00000000:18:00.0, Disabled' ;;
esac
"""


def test_a_process_on_our_gpu_is_told_with_whose_gpu_it_is(line: Line) -> None:
    """The simulator has no GPUs: the hosts are asked as those of a cluster that has."""
    script = f"cat > /usr/bin/nvidia-smi <<'END'\n{NVIDIA_SMI}END\nchmod 755 /usr/bin/nvidia-smi"
    line.inside(
        f"{script}; systemd-run -q --unit training sleep 600; {pid_of('training')} > /tmp/foreign", "h2"
    )
    try:
        rows = asked_for_gpus(line, "h2")
        assert [row.what.split(", pid ")[0] for row in rows] == ["GPU 0 (decoder-0) is used by sleep"]
        assert rows[0].unit == "training.service" and rows[0].memory_mib == 4096
        line.inside(f"{pid_of(D0)} > /tmp/foreign", "h2")
        assert asked_for_gpus(line, "h2") == []
    finally:
        line.inside("systemctl stop training; rm /usr/bin/nvidia-smi /tmp/foreign", "h2")


def pid_of(name: str) -> str:
    return f"systemctl show --value -p MainPID {name}"


def asked_for_gpus(line: Line, host: str) -> Any:
    from pdctl.hosts.probe import probe
    from pdctl.spec.load import load

    spec = load(line.folder / "cluster.yaml")
    found = probe(spec, {}, line.folder, claims={host: {"ports": [], "gpus": {"0": "decoder-0"}}})
    return list(found.foreign.get(host, ()))
