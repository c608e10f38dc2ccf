"""A generation keeps the cluster.lock that it was made with, and is of one life of its cluster."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.playbooks.test_turn import applied, ask, end, folder, generation, kept, take


def test_a_generation_keeps_the_lock_that_it_was_made_with(tmp_path: Path) -> None:
    lock = "pdctl-lock/1 sha256:0\n"
    assert take(tmp_path, generation=generation(1) | {"lock": lock}) == {}
    assert end(tmp_path, number=1, state="complete") == {}
    assert ask(tmp_path, "recall", number=1, only="lock") == {"lock": lock}
    assert kept(tmp_path)["spec_text"]["lock"] == hashlib.sha256(lock.encode()).hexdigest()
    applied(tmp_path, 2)
    assert ask(tmp_path, "recall", number=2, only="lock") == {"lock": ""}
    assert ask(tmp_path, "recall", number=3, only="lock") == {"lock": None}
    assert end_of_all(tmp_path) == []


def end_of_all(root: Path) -> list[str]:
    """What is left of the lock's text once no generation names it."""
    take(root)
    end(root, oldest=2)
    return [path.name for path in (folder(root) / "store").iterdir() if "pdctl-lock" in path.read_text()]


def lived(root: Path, number: int, life: str) -> None:
    one = generation(number)
    assert take(root, generation=one | {"header": one["header"] | {"life": life}}) == {}
    assert end(root, number=number, state="complete") == {}


def test_generations_of_an_earlier_life_are_not_recalled_and_go_with_the_next_one(tmp_path: Path) -> None:
    lived(tmp_path, 2, "a")
    lived(tmp_path, 12, "a")
    asked = {"number": 3, "life": "b"}
    assert ask(tmp_path, "recall", **asked) == {"manifest": None, "spec": None, "lock": None}
    assert ask(tmp_path, "recall", number=3, life="a")["manifest"]["number"] == 2
    lived(tmp_path, 1, "b")
    assert [row["number"] for row in kept(tmp_path)["generations"]] == [1]
    assert ask(tmp_path, "recall", **asked)["manifest"]["number"] == 1
