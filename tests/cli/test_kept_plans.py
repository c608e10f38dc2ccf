"""Plans as files: private, whole, and refused before any host is asked when they cannot be carried out."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from pdctl.apply.look import Look
from pdctl.apply.plan_file import is_plan, read_plan, write_plan
from pdctl.errors import ApplyError
from pdctl.hosts.observation import Facts, Observation
from pdctl.plan.document import plan_document
from tests.cli.program import pdctl
from tests.plan.changes import SPEC, edit

FACTS = Facts("h", "3.11", "6.1", "x86_64", "debian", "12", "252", "b", 0.0, True, 2, 1, {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a spec, and the plan of an edit of it."""
    (tmp_path / "cluster.yaml").write_text(SPEC.replace("max_num_seqs: 64", "max_num_seqs: 128"))
    write(tmp_path / "plan.json")
    return tmp_path


def write(path: Path) -> None:
    done = edit(("max_num_seqs: 64", "max_num_seqs: 128"))
    facts = dict.fromkeys(done.topology.hosts, FACTS)
    seen = Observation(done.observed, done.observed, {}, {}, facts, {}, {}, {})
    look = Look(done.topology, path.parent, done.desired, seen, done.plan)
    write_plan(path, plan_document(done.plan), look, path.parent / "cluster.yaml")


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_plan_is_for_its_owner_alone_and_nothing_lies_beside_it(folder: Path) -> None:
    assert stat.S_IMODE((folder / "plan.json").stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["cluster.yaml", "plan.json"]
    assert is_plan(folder / "plan.json") and read_plan(folder / "plan.json").spec == str(
        folder / "cluster.yaml"
    )


def test_a_newer_plan_takes_the_place_of_an_older_one_and_of_nothing_else(folder: Path) -> None:
    write(folder / "plan.json")
    before = (folder / "cluster.yaml").read_text()
    with pytest.raises(ApplyError, match="exists and is no plan"):
        write(folder / "cluster.yaml")
    assert (folder / "cluster.yaml").read_text() == before


def test_a_plan_that_cannot_be_written_leaves_the_older_one(folder: Path) -> None:
    before = (folder / "plan.json").read_bytes()
    (folder / "cluster.yaml").unlink()  # its digest cannot be made
    with pytest.raises(OSError):
        write(folder / "plan.json")
    assert (folder / "plan.json").read_bytes() == before and len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--instance", "decoder-1"), "a kept plan has its own targets"),
        ((), "cluster.yaml has changed since it was made"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(folder: Path, words: tuple[str, ...], said: str) -> None:
    if not words:
        (folder / "cluster.yaml").write_text(SPEC)
    ran = pdctl(folder, "apply", "plan.json", "--yes", *words)
    assert ran.returncode == 1 and said in ran.stderr and ran.stdout == ""


def test_an_edited_plan_is_refused(folder: Path) -> None:
    change(folder / "plan.json", changes=[])
    ran = pdctl(folder, "apply", "plan.json", "--yes", "--json")
    assert ran.returncode == 1 and json.loads(ran.stdout)["error"] == "was changed after pdctl wrote it"
    assert ran.stderr.splitlines()[-1] == "hint: make a new one: pdctl diff --out plan.json"


def refused(folder: Path) -> str:
    with pytest.raises(ApplyError) as error:
        read_plan(folder / "plan.json")
    return error.value.message


def test_a_plan_of_another_version_is_refused(folder: Path) -> None:
    change(folder / "plan.json", format="pdctl-plan/99")
    assert "is a plan of another version of pdctl (pdctl-plan/99" in refused(folder)


def test_half_a_plan_is_refused(folder: Path) -> None:
    whole = (folder / "plan.json").read_text()
    (folder / "plan.json").write_text(whole[: len(whole) // 2])
    assert refused(folder).startswith("is no plan of pdctl: ")


def test_a_plan_whose_spec_is_gone_is_refused(folder: Path) -> None:
    (folder / "cluster.yaml").unlink()
    assert refused(folder).startswith("its spec cannot be read: ")


def test_a_plan_holds_no_secret(folder: Path) -> None:
    text = (folder / "plan.json").read_text()
    assert "scrypt:" not in text and "content" in text


def test_drift_alone_is_no_plan_to_keep(folder: Path) -> None:
    ran = pdctl(folder, "diff", "--drift-only", "--out", "x.json")
    assert ran.returncode == 1 and "drift alone is no plan to keep" in ran.stderr
