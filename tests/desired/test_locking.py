"""A lock beside the spec counts as long as it was made from it; else the error says what moved."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pdctl.desired import desire
from pdctl.desired.locking import judged_with_lock, wanted
from pdctl.parts.cluster_lock import ClusterLock, lock_text, parse_cluster_lock
from pdctl.parts.lock import Entry, lock_of
from pdctl.spec.load import inspect
from pdctl.state import Venv
from pdctl.topology.judge import Judgement, judge
from tests.spec.breaking import sound_but_for

HASH = "sha256:" + "0" * 64
OFFLINE = "offline: true\nmodel: {id: Qwen/Qwen3-8B, path: /models/qwen3-8b}\n"
STACK = "stack: cuda13-2026\n"
SIMULATOR = "engine: simulator\nhosts: [{name: gpu01, address: 10.0.0.11, gpus: 8}]\n"


def judged(part: str) -> Judgement:
    return judge(inspect(sound_but_for(part), "cluster.yaml"))


def lock_for(part: str) -> ClusterLock:
    """A lock with just the wheels that are asked for by version."""
    wants = wanted(judged(part).sound())
    environments = {
        each: lock_of(
            Entry(name, version, (HASH,))
            for line in (*recipe.requires, *recipe.unresolved)
            for name, equal, version in [line.replace("===", "==").partition("==")]
            if equal
        )
        for each, recipe in wants.recipes.items()
    }
    return ClusterLock("chat", wants.source, wants.packages, environments, {})


def beside(tmp_path: Path, lock: str, part: str) -> Judgement:
    (tmp_path / "cluster.lock").write_text(lock)
    return judged_with_lock(judged(part), tmp_path / "cluster.yaml")


def told(judgement: Judgement) -> list[tuple[str, int, str]]:
    return [(e.rule, e.place.line if e.place else -1, e.message) for e in judgement.errors]


def with_proxy(lock: ClusterLock) -> ClusterLock:
    """The proxy's requirements are ranges, so that any version of its wheels will do."""
    filled = {
        key: each if each.entries else lock_of([Entry("aiohttp", "3.14.5", (HASH,))])
        for key, each in lock.environments.items()
    }
    return ClusterLock(lock.cluster, lock.source, lock.packages, filled, {})


def test_a_lock_of_this_spec_becomes_part_of_the_topology(tmp_path: Path) -> None:
    lock = beside(tmp_path, lock_text(with_proxy(lock_for(STACK))), STACK).sound().lock
    assert lock is not None
    assert {entry.name for entry in lock.environments["engine-cuda", "3.12"].entries} >= {"torch", "vllm"}


@pytest.mark.parametrize(
    ("now", "moved"),
    [
        ('stack: {base: cuda13-2026, nixl: "1.5.0"}\n', {"nixl: 1.5.1 -> 1.5.0"}),
        (
            'stack: {base: cuda13-2026, vllm: "0.31.0", python: "3.11"}\n',
            {"vllm: 0.32.0 -> 0.31.0", "python: 3.12 -> 3.11"},
        ),
        (
            "stack: {base: cuda13-2026, cuda: 13.0.88-1}\n",
            {
                "cuda-nvcc-13-0 on ubuntu-22.04: nothing -> 13.0.88-1",
                "cuda-cudart-dev-13-0 on ubuntu-22.04: nothing -> 13.0.88-1",
            },
        ),
        (
            "stack: {}\n",
            {"nvidia-driver-580-server-open on ubuntu-22.04: 580.95.05-0ubuntu0.22.04.2 -> nothing"},
        ),
    ],
)
def test_a_stale_lock_says_what_moved_and_from_what_to_what(
    tmp_path: Path, now: str, moved: set[str]
) -> None:
    text = lock_text(with_proxy(lock_for(STACK)))
    found = beside(tmp_path, text, now)
    assert found.topology is None
    assert {rule for rule, *_ in told(found)} == {"LOCK002"}
    assert {message.partition("else: ")[2] for *_, message in told(found)} == moved
    for error in found.errors:
        assert "pdctl lock" in (error.hint or "")
        then = error.message.partition("else: ")[2].partition(":")[0]
        line = error.place.line if error.place else 0
        assert not line or text.splitlines()[line - 1].startswith(f"{then} = ")


def test_another_system_of_a_host_moves_its_environments(tmp_path: Path) -> None:
    now = SIMULATOR.replace("gpus: 8", "gpus: 8, os: ubuntu-24.04")
    found = beside(tmp_path, lock_text(with_proxy(lock_for(SIMULATOR))), now)
    assert any("simulator on 3.12: nothing -> aiohttp" in message for *_, message in told(found))
    assert any("simulator on 3.11: aiohttp" in message for *_, message in told(found))


def test_what_no_version_depends_on_leaves_the_lock_alone(tmp_path: Path) -> None:
    now = STACK + "serving: {prefillers: {count: 2}, decoders: {}, load_timeout_s: 99}\n"
    assert not beside(tmp_path, lock_text(with_proxy(lock_for(STACK))), now).errors


def test_a_dependency_may_be_edited_but_not_the_stack(tmp_path: Path) -> None:
    text = lock_text(with_proxy(lock_for(STACK)))
    edited = text.replace("aiohttp==3.14.5", "aiohttp==3.13.0")
    assert not beside(tmp_path, edited, STACK).errors
    found = beside(tmp_path, edited.replace("nixl==1.5.1", "nixl==1.4.0"), STACK)
    assert [(rule, message) for rule, _, message in told(found)] == [
        ("LOCK003", "holds nixl 1.4.0, though it was made for nixl 1.5.1")
    ]
    assert found.name.endswith("cluster.lock")


def without(start: str) -> Callable[[str], str]:
    """As a merge loses a line."""
    return lambda text: "".join(f"{line}\n" for line in text.splitlines() if not line.startswith(start))


@pytest.mark.parametrize(
    ("spoil", "line", "says"),
    [
        (lambda text: text.replace("nixl = 1.5.1", "nixl = 1.5.0"), 2, "is not the one it was written with"),
        (lambda text: "", 0, "does not begin with `pdctl-lock/1"),
        (lambda text: text + "rubbish\n", 0, "is not `name==version"),
        (lambda text: text.replace("[from]", "[form]"), 0, "has no section [from]"),
        (
            lambda text: text + f"torch==2.13.0 --hash={HASH}\ntorch==2.14.0 --hash={HASH}\n",
            0,
            "or a second one",
        ),
        (lambda text: text + "[from]\n", 0, "is there twice"),
        (lambda text: text.replace("[from]\n", "", 1), 4, "stands in no section"),
        (lambda text: text + "\0" * (5 << 20), 0, "is larger than 4 MiB"),
        (lambda text: text.replace("pdctl-lock/1", "pdctl-lock/9"), 2, "does not begin with"),
        (lambda text: "<<<<<<< ours\n" + text, 1, "does not begin with"),
        (without("aiohttp=="), 0, "was written with"),
        (without("torch=="), 0, "was written with 4 lines and has 3"),
        (lambda text: "\n".join(text.splitlines()[:-1]), 0, "was written with"),
        (lambda text: text.replace("lines]", "line]").replace(": 1", ": 2"), 0, "was written with"),
    ],
)
def test_what_is_no_lock_is_one_error_with_its_line(tmp_path: Path, spoil, line: int, says: str) -> None:  # type: ignore[no-untyped-def]
    found = beside(tmp_path, spoil(lock_text(with_proxy(lock_for(STACK)))), STACK)
    ((rule, at, message),) = told(found)
    assert rule == "LOCK001" and says in message
    assert not line or at == line


def test_a_lock_of_a_pdctl_that_did_not_count_is_taken(tmp_path: Path) -> None:
    text = re.sub(r": \d+ lines?\]", "]", lock_text(with_proxy(lock_for(STACK))))
    assert not beside(tmp_path, text, STACK).errors


@pytest.mark.parametrize("target", ["cluster.lock", "nowhere.lock"])
def test_a_link_that_leads_nowhere_is_a_broken_lock_and_not_none(tmp_path: Path, target: str) -> None:
    (tmp_path / "cluster.lock").symlink_to(tmp_path / target)
    found = judged_with_lock(judged(STACK), tmp_path / "cluster.yaml")
    assert [rule for rule, *_ in told(found)] == ["LOCK001"] and "cannot be read" in told(found)[0][2]


def test_a_lock_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.lock").write_bytes(b"\xff\xfe\x00")
    found = judged_with_lock(judged(STACK), tmp_path / "cluster.yaml")
    assert told(found)[0][0] == "LOCK001" and "not UTF-8" in told(found)[0][2]


def test_the_text_reads_back(tmp_path: Path) -> None:
    lock = with_proxy(lock_for(STACK))
    again = parse_cluster_lock(lock_text(lock), tmp_path / "cluster.lock")
    assert (again.cluster, again.source, again.packages) == (lock.cluster, lock.source, lock.packages)
    assert again.environments == lock.environments
    assert lock_text(again) == lock_text(lock)


def wheels_of(tmp_path: Path, part: str) -> dict[str, int]:
    """Of each environment: how many wheels come from the bundle."""
    topology = beside(tmp_path, lock_text(with_proxy(lock_for(part))), part).sound()
    venvs = [each for each in desire(topology).values() if isinstance(each, Venv)]
    return {each.path.rsplit("/", 1)[1].rsplit("-", 1)[0]: len(each.wheels) for each in venvs}


def test_hosts_without_the_internet_are_sent_the_wheels_for_gpus(tmp_path: Path) -> None:
    online = wheels_of(tmp_path, STACK)
    offline = wheels_of(tmp_path, f"{STACK}{OFFLINE}")
    assert (online["engine-cuda"], offline["engine-cuda"]) == (0, 4) and online["proxy"] == offline[
        "proxy"
    ] > 0


def test_without_a_lock_they_are_told_what_that_means(tmp_path: Path) -> None:
    def rules(part: str) -> list[str]:
        found = judged_with_lock(judged(part), tmp_path / "cluster.yaml")
        assert not found.errors
        return [each.rule for each in found.warnings if each.rule.startswith(("LOCK", "SUPPRESS"))]

    hushed = "suppress: [{rule: LOCK004, reason: they have a mirror}]\n"
    assert rules(STACK) == [] and rules(f"{STACK}{OFFLINE}") == ["LOCK004"]
    assert rules(f"{STACK}{OFFLINE}{hushed}") == []
