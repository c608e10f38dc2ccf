"""A blob whose bytes are not those it is named after is not used, and is written anew when kept again."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils import pdctl_generations

from tests.playbooks.conftest import file_row
from tests.playbooks.test_broken_past import put, seen
from tests.playbooks.test_turn import applied, ask, folder

DATA = b"one\n"
SPEC = b"cluster: chat\n"


def blob(root: Path, data: bytes) -> Path:
    (found,) = [path for path in (folder(root) / "store").iterdir() if path.read_bytes() == data]
    return found


@pytest.mark.parametrize("damage", [b"ONE\n", b"", b"one\nand more", b"\xff\xff\xff\xff"])
def test_a_damaged_content_is_told_by_its_path(tmp_path: Path, damage: bytes) -> None:
    applied(tmp_path, 1, file_row(tmp_path / "x", DATA))
    path = blob(tmp_path, DATA)
    put(path, damage)
    assert ask(tmp_path, "recall", number=1)["error"].startswith(f"{path}: it is damaged")


def test_a_damaged_spec_keeps_nobody_from_what_the_host_held(tmp_path: Path) -> None:
    rows = [file_row(tmp_path / "x", DATA)]
    applied(tmp_path, 1, *rows)
    path = blob(tmp_path, SPEC)
    put(path, b"Cluster: chat\n")
    assert ask(tmp_path, "recall", number=1, only="manifest")["manifest"]["rows"] == rows
    assert f"{path}: it is damaged" in ask(tmp_path, "recall", number=1, only="spec")["error"]
    assert [line for line in seen(tmp_path).broken if line.startswith(f"{path}: it is damaged")]
    put(path, SPEC)
    put(blob(tmp_path, DATA), b"ONE\n")
    assert ask(tmp_path, "recall", number=1, only="spec")["spec"] == SPEC.decode()


def test_rows_that_are_no_rows_are_told_by_their_path(tmp_path: Path) -> None:
    """Somebody has edited the manifest: what it names is whole, and something else."""
    applied(tmp_path, 1, file_row(tmp_path / "x", DATA))
    path = folder(tmp_path) / "generations/1.json"
    row = blob(tmp_path, SPEC)
    text = path.read_text()
    rows = text.split('"rows": "')[1].split('"')[0]
    path.write_text(text.replace(f'"rows": "{rows}"', f'"rows": "{row.name}"'))
    assert ask(tmp_path, "recall", number=1)["error"].startswith(f"{row}: ")


@pytest.mark.parametrize("name", ["..", ".", "", "/", "a\0b", "../generations"])
def test_a_name_that_is_no_digest_is_told(tmp_path: Path, name: str) -> None:
    applied(tmp_path, 1)
    path = folder(tmp_path) / "generations/1.json"
    text = path.read_text()
    spec = text.split('"spec": "')[1].split('"')[0]
    path.write_text(text.replace(f'"spec": "{spec}"', f'"spec": "{name}"'.replace("\0", "\\u0000")))
    assert seen(tmp_path).spec_text is None and seen(tmp_path).broken
    assert ask(tmp_path, "recall", number=1)["error"]


def test_what_is_kept_again_is_whole_again(tmp_path: Path) -> None:
    applied(tmp_path, 1, file_row(tmp_path / "x", DATA))
    path = blob(tmp_path, DATA)
    put(path, b"ONE\n")
    pdctl_generations.keep(str(folder(tmp_path)), DATA)
    assert path.read_bytes() == DATA
    path.unlink()
    path.mkdir()
    pdctl_generations.keep(str(folder(tmp_path)), DATA)
    assert path.read_bytes() == DATA
