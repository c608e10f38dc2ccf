"""The whole line with the engine simulator: spec, plan, hosts, served tokens, numbers, and nothing left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from pdctl.topology.model import START_ORDER
from tests.hosts.line import CLUSTER, CONFIG, HOSTS, PLACES, Line, Ran, changed, line_on_hosts, soak, unit
from tests.hosts.load import load
from tests.hosts.plays import listing, snapshot

pytestmark = pytest.mark.hosts

FRONT = "198.18.0.10:9100"
ANSIBLE = ("ansible_runner", "ansible-pdctl_converge")  # in the controller's imports, in the host's journal


@dataclass
class Story:
    """The line, and what was seen before, at and after the first apply on hosts that held nothing."""

    line: Line
    before: dict[str, list[str]]
    first_diff: Ran
    first: Ran
    lives: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with line_on_hosts(tmp_path_factory) as line:
        before = {host: listing(line.lab, host) for host in HOSTS}
        first_diff = line.pdctl("diff", "--json", "--exit-code")
        yield Story(line, before, first_diff, line.apply("--json"))


@pytest.fixture
def line(story: Story) -> Line:
    """Both hosts are as SPEC says when the test begins."""
    story.line.mend()
    return story.line


def test_the_first_diff_creates_everything_and_ends_with_2(story: Story) -> None:
    plan = story.first_diff.must(2).json
    assert {change["action"] for change in plan["changes"]} == {"create"}
    units = {(change["host"], change["id"]) for change in plan["changes"] if change["id"].startswith("unit:")}
    assert units == {(host, f"unit:{unit(name)}") for name, host in PLACES.items()}
    assert plan["drift"] == plan["restarts"] == [] and plan["unreachable"] == {}
    roles = [role for role in START_ORDER if role != "server"]
    assert [step["name"] for step in plan["steps"]] == ["put", *roles]


def test_the_first_apply_says_what_it_did_on_each_host_and_proves_service(story: Story) -> None:
    done = story.first.json
    assert sorted(done["did"]) == list(HOSTS)
    planned = {(change["host"], change["id"].split(":", 1)[1]) for change in done["plan"]["changes"]}
    told = {
        (host, entry.split(":")[0].split()[-1]) for host, entries in done["did"].items() for entry in entries
    }
    assert told == planned
    assert done["proof"]["ok"] and done["proof"]["simulated"]


def test_every_unit_runs_and_is_enabled(line: Line) -> None:
    for name, host in PLACES.items():
        words = line.inside(f"systemctl is-active {unit(name)}; systemctl is-enabled {unit(name)}", host)
        assert words.split() == ["active", "enabled"], name


def test_a_second_apply_has_nothing_to_do_and_starts_no_ansible(line: Line) -> None:
    lives, noise = line.lives(), traces(line)
    ran = line.pdctl("apply", "--yes", "--json", env={"PYTHONPROFILEIMPORTTIME": "1"}).must()
    assert ran.json["plan"]["empty"] and ran.json["did"] == {} and ran.json["proof"]["ok"]
    assert ANSIBLE[0] not in ran.err and traces(line) == noise
    assert line.lives() == lives


def test_the_sign_of_ansible_is_there_when_there_is_work(line: Line) -> None:
    """Else the test above could not fail."""
    noise = traces(line)
    line.inside(f"touch {CONFIG}/proxy.json; chmod 600 {CONFIG}/proxy.json")
    ran = line.pdctl("apply", "--yes", "--no-verify", env={"PYTHONPROFILEIMPORTTIME": "1"}).must()
    assert ANSIBLE[0] in ran.err and traces(line) > noise


def traces(line: Line) -> int:
    """How often Ansible has run a module of ours on h1."""
    return int(line.inside(f"journalctl -q --no-pager -o cat -t {ANSIBLE[1]} | grep -c Invoked || true"))


def test_a_second_apply_says_so_in_one_line(line: Line) -> None:
    ran = line.pdctl("apply", "--yes", "--no-verify").must()
    assert (ran.out, ran.err) == ("Nothing to do: `line` is as its spec says\n", "")


def test_the_diff_is_empty_and_ends_with_0(line: Line) -> None:
    plan = line.pdctl("diff", "--json", "--exit-code").must().json
    assert plan["empty"] and plan["changes"] == plan["drift"] == plan["restarts"] == plan["steps"] == []


def test_status_shows_each_instance_healthy_and_all_of_it_as_simulated(line: Line) -> None:
    status = line.pdctl("status", "--json").must().json
    assert status["healthy"] and status["simulated"] and status["changes"] == 0 and status["drift"] == []
    rows = {row["instance"]: row for row in status["instances"]}
    assert {name: row["host"] for name, row in rows.items()} == PLACES
    for row in rows.values():
        assert (row["unit"], row["healthy"], row["simulated"]) == ("active", True, True)
    assert "SIMULATED" in line.pdctl("status").must().out


def test_verify_shows_that_the_kv_moved_and_the_text_is_equal(line: Line) -> None:
    proof = line.pdctl("verify", "--json", "--seed", "7").must().json
    assert proof["ok"] and proof["simulated"]
    assert proof["transfer"]["moved"] >= proof["transfer"]["expected"] > 0
    assert {row["decoder"] for row in proof["exchanges"]} == {"decoder-0", "decoder-1"}
    assert all(row["equal"] and row["prefiller"] == "prefiller-0" for row in proof["exchanges"])


def test_the_quick_bench_writes_vllms_fields_and_says_that_it_was_simulated(line: Line) -> None:
    ran = line.pdctl("bench", "--quick", "--seed", "7").must()
    assert "SIMULATED" in ran.out
    (path,) = (line.folder / "results").iterdir()
    result = json.loads(path.read_text())
    # vllm bench serve --save-result (vLLM 0.11: vllm/benchmarks/serve.py).
    fields = ["num_prompts", "completed", "total_input_tokens", "total_output_tokens", "request_throughput"]
    fields += [
        "output_throughput",
        "total_token_throughput",
        "duration",
        "max_concurrency",
        "model_id",
        "date",
    ]
    kinds = ("ttft", "tpot", "itl")
    fields += [f"{statistic}_{kind}_ms" for statistic in ("mean", "median", "p99") for kind in kinds]
    assert set(fields) <= result.keys()
    assert result["pdctl"]["simulated"] is True and result["completed"] == result["num_prompts"] > 0
    assert result["median_itl_ms"] > 0 and result["median_ttft_ms"] > result["median_itl_ms"]


def test_logs_are_those_of_the_instance_asked_for(line: Line) -> None:
    printed = line.pdctl("logs", "decoder-0", "-n", "3").must().out.splitlines()
    assert len(printed) == 3 and all(" h2 " in row for row in printed)
    found = line.pdctl("logs", "proxy", "-n", "2", "--json").must().json
    assert found["host"] == "h1" and len(found["lines"]) == 2
    wrong = line.pdctl("logs", "decoder-7").must(1)
    assert wrong.err.startswith(
        "error: there is no instance `decoder-7`\nhint: there are: decoder-0, decoder-1"
    )


def test_one_decoder_more_and_less_restarts_nothing_and_fails_no_request(line: Line) -> None:
    lives, files = line.lives(), things(line)
    line.write(decoders={"count": 3})
    plan = line.diff()
    assert plan["restarts"] == []
    (proxy,) = (change for change in plan["changes"] if change["id"] == f"unit:{unit('proxy')}")
    assert proxy["why"] == ["takes up the new list of instances without a restart"]
    with load(line.lab, "h1", FRONT) as served:
        line.apply()
    assert not served.failed, served.failed[0]
    more = line.lives()
    assert changed(lives, more) == {"decoder-2"} and "decoder-2" in more
    assert line.diff()["empty"]
    grown = things(line)
    came = set(grown["h2"]) - set(files["h2"])
    assert grown["h1"] == files["h1"] and all("decoder-2" in entry for entry in came) and len(came) >= 5
    line.write()
    with load(line.lab, "h1", FRONT) as after:
        line.apply()
    print(f"scale-out: {served.summary()}\nscale-in: {after.summary()}")
    assert not after.failed, after.failed[0]
    assert any("decoder-2" in pair for pair in after.pairs), "the new decoder has served before it went"
    assert changed(more, line.lives()) == {"decoder-2"}
    assert things(line) == files


def things(line: Line) -> dict[str, list[str]]:
    """What is on the hosts, less the history that pdctl keeps there."""
    history = f"/var/lib/pdctl/{CLUSTER}/"
    return {
        host: [entry for entry in snapshot(line.lab, host) if not entry.startswith(history)] for host in HOSTS
    }


def test_a_changed_variable_restarts_its_role_and_nothing_else(line: Line) -> None:
    line.write(decoders={"count": 1})
    line.apply("--no-verify")
    lives = line.lives()
    line.write(decoders={"count": 1, "env": {"NCCL_DEBUG": "INFO"}})
    plan = line.diff()
    causes = {row["instance"]: row["causes"] for row in plan["restarts"]}
    assert causes == {"decoder-0": [f"{CONFIG}/decoder-0.env"]}
    (change,) = (c for c in plan["changes"] if c["id"] == f"file:{CONFIG}/decoder-0.env")
    assert '+NCCL_DEBUG="INFO"' in change["diff"] and not change["drift"]
    line.apply()
    assert changed(lives, line.lives()) == {"decoder-0"}
    environment = f"tr '\\0' '\\n' < /proc/{line.lives()['decoder-0'].pid}/environ"
    assert "NCCL_DEBUG=INFO" in line.inside(environment, "h2").splitlines()


def test_where_peers_grow_stale_prefillers_restart_with_a_decoder_that_restarts_or_comes_back(
    line: Line,
) -> None:
    stale = {"engine": {"kind": "simulator", "simulator": {"stale_peers": True}}}
    line.write(stale)
    line.apply()
    lives = line.lives()
    line.write(stale, decoders={"count": 1, "env": {"NCCL_DEBUG": "INFO"}})
    peer = "its peer decoder-0 restarts, and LMCache never renews a peer"
    assert causes_of(line, "prefiller-0") == [peer]
    line.apply()
    assert changed(lives, line.lives()) == {"decoder-0", "decoder-1", "prefiller-0"}
    line.write(stale, decoders={"count": 2, "env": {"NCCL_DEBUG": "INFO"}})
    assert causes_of(line, "prefiller-0") == []  # it never met a decoder-1
    line.apply()
    lives = line.lives()
    line.write(stale, decoders={"count": 1, "env": {"NCCL_DEBUG": "INFO"}})
    line.apply("--no-verify")
    assert changed(lives, line.lives()) == {"decoder-1"} and line.diff()["empty"]
    line.write(stale, decoders={"count": 2, "env": {"NCCL_DEBUG": "INFO"}})
    assert causes_of(line, "prefiller-0") == ["it may hold addresses of an earlier decoder-1"]
    line.apply()
    assert changed(lives, line.lives()) == {"decoder-1", "prefiller-0"} and line.diff()["empty"]
    line.write()
    line.apply("--no-verify")


@soak
def test_requests_that_do_not_end_stop_a_rollout_before_anything_restarts(line: Line) -> None:
    slow = {"engine": {"kind": "simulator", "simulator": {"itl_ms": 100}}}
    line.write(slow, rollout={"drain_timeout_s": 1})
    line.apply()
    lives = line.lives()
    line.write(slow, decoders={"count": 2, "env": {"NCCL_DEBUG": "INFO"}}, rollout={"drain_timeout_s": 1})
    with load(line.lab, "h1", FRONT, workers=4, tokens=500, most=1) as served:
        ran = line.pdctl("apply", "--yes", "--no-verify").must(1)
    print(ran.err[ran.err.index("error:") :])
    assert "decoder-0 still has 2 requests after 1 s: all serve again, and nothing more was" in ran.err
    assert not served.failed and len(served.rows) == 4, served.failed[0]
    assert not changed(lives, line.lives())
    assert not any("drained" in entry for row in line.diff()["drift"] for entry in row["what"])
    line.apply("--no-verify")
    assert changed(lives, line.lives()) == {"decoder-0", "decoder-1"} and line.diff()["empty"]


def causes_of(line: Line, instance: str) -> list[str]:
    """Why the plan restarts it."""
    return [
        cause for row in line.diff()["restarts"] if row["instance"] == instance for cause in row["causes"]
    ]


def test_destroy_leaves_the_hosts_as_they_were(story: Story, line: Line) -> None:
    """Every file, package, account and unit of them."""
    assert all(len(found) > 5000 for found in story.before.values())
    for host in HOSTS:
        assert len(set(listing(line.lab, host)) - set(story.before[host])) > 500
    assert line.pdctl("destroy").must(1).err.splitlines()[-1] == "hint: add --yes"
    done = line.pdctl("destroy", "--yes", "--json").must().json
    assert sorted(done["did"]) == list(HOSTS)
    titles = ["Remove the proxy", "Remove prefillers", "Remove decoders", "Remove everything else"]
    assert [step["title"][:22] for step in done["plan"]["steps"]] == [title[:22] for title in titles]
    assert "was left out" not in json.dumps(done["plan"])
    for host in HOSTS:
        assert sorted(set(listing(line.lab, host)) ^ set(story.before[host])) == []
    again = line.pdctl("destroy", "--yes").must()
    assert again.out == "Nothing to do: nothing of `line` is there\n"
    line.mend()
    assert line.diff()["empty"]
