"""A generation keeps the cluster.lock that it was made with."""

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
