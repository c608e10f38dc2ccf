"""`pdctl adopt` as a command: hosts in every spelling, its file, and what it refuses."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from pdctl.adopt.observed import Answer, Facts
from pdctl.adopt.save import save
from pdctl.adopt.targets import named, targets, targets_of
from pdctl.errors import SpecError
from tests.cli.program import pdctl
from tests.topology.specs import cluster

HERE = Path()
HOSTS: list[tuple[str, dict[str, Any]]] = [
    ("gpu01", {"address": "gpu01", "name": "gpu01", "user": "ops", "port": None}),
    ("gpu01.example.com", {"address": "gpu01.example.com", "name": "gpu01"}),
    ("10.0.0.1", {"address": "10.0.0.1", "name": None}),
    ("ann@10.0.0.1:2222", {"address": "10.0.0.1", "name": None, "user": "ann", "port": 2222}),
    ("a=ann@10.0.0.1", {"address": "10.0.0.1", "name": "a", "user": "ann"}),
    ("[fd00::1]:22", {"address": "fd00::1", "name": None, "port": 22}),
    ("fd00::1", {"address": "fd00::1", "name": None}),
    ("localhost", {"address": "localhost", "name": None}),
]


@pytest.mark.parametrize(("argument", "means"), HOSTS, ids=[argument for argument, _ in HOSTS])
def test_a_host_is_an_address_with_or_without_name_user_and_port(
    argument: str, means: dict[str, Any]
) -> None:
    [target] = targets([argument], {"user": "ops"}, HERE).values()
    said = {"name": target.name, **{key: getattr(target.reach, key) for key in ("address", "user", "port")}}
    assert said == {"user": "ops", "port": None} | means


@pytest.mark.parametrize("argument", ["", "-oProxyCommand=x", "a b", "h:port", "a=b=c", "a=-oX", "-x@h"])
def test_what_is_no_host_is_refused(argument: str) -> None:
    with pytest.raises(SpecError, match="is no host"):
        targets([argument], {}, HERE)


def test_a_host_without_a_name_says_its_own_and_no_two_get_the_same() -> None:
    found = targets(["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"], {}, HERE)
    own = ["gpu.example.com", "gpu", "all", "localhost"]
    answers = {key: Answer(Facts(name, "debian", "12")) for key, name in zip(found, own, strict=True)}
    assert [seen.name for seen in named(found, answers)] == ["gpu", "host2", "host3", "localhost"]


def test_paths_for_ssh_still_lead_there_from_where_the_draft_lies(tmp_path: Path) -> None:
    ssh = {"config": "lab/ssh_config", "key": "~/.ssh/id"}
    [here] = targets(["h1"], ssh, HERE).values()
    [there] = targets(["h1"], ssh, tmp_path).values()
    assert here.ssh == ssh
    assert there.ssh == {"config": str(Path.cwd() / "lab/ssh_config"), "key": "~/.ssh/id"}
    assert here.reach.config == str(Path.cwd() / "lab/ssh_config")


def test_hosts_of_a_spec_keep_what_it_says_of_them() -> None:
    spec = cluster(hosts=[{"name": "a", "address": "10.0.0.1", "labels": {"rack": "1"}}], ssh={"user": "ops"})
    [target] = targets_of(spec, HERE, HERE).values()
    assert target.given == {"name": "a", "address": "10.0.0.1", "labels": {"rack": "1"}}
    assert target.reach.user == "ops" and target.ssh == {"user": "ops"}


def test_a_file_that_is_there_is_kept_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    save("one\n", path, force=False)
    with pytest.raises(SpecError, match="is there already"):
        save("two\n", path, force=False)
    assert path.read_text() == "one\n"
    save("three\n", path, force=True)
    assert path.read_text() == "three\n" and [p.name for p in tmp_path.iterdir()] == ["cluster.yaml"]
    with pytest.raises(SpecError, match="cannot be written"):
        save("x", tmp_path / "no" / "cluster.yaml", force=False)


def test_of_two_writers_at_once_one_wins_and_the_file_is_whole(tmp_path: Path) -> None:
    path, ends = tmp_path / "cluster.yaml", []

    def write(text: str) -> None:
        try:
            save(text, path, force=False)
            ends.append("won")
        except SpecError:
            ends.append("lost")

    threads = [threading.Thread(target=write, args=(letter * 100_000,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["lost", "lost", "lost", "won"]
    assert len(path.read_text()) == 100_000 and len(set(path.read_text())) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no host is given"),
        (("h1",), "the file is there already"),
        (("h1", "--from", "cluster.yaml", "--out", "x"), "--from takes hosts"),
        (("h1", "--json", "--out", "-"), "both want stdout"),
        (("h1", "--out", "."), "is a directory"),
    ],
)
def test_wrong_calls_end_before_any_host_is_asked(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "cluster.yaml").write_text("cluster: x\n")
    done = pdctl(tmp_path, "adopt", *(words or ("--out", "new.yaml")))
    assert done.returncode == 1 and said in done.stderr
    assert (tmp_path / "cluster.yaml").read_text() == "cluster: x\n"
