from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_files import NEW, put_directory, put_file, render_environment, write_file
from ansible.module_utils.pdctl_observe import observe_rows

from tests.playbooks.conftest import directory_row, file_row, needs_root


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False)
    if mounted.returncode:
        pytest.skip("mounting a tiny tmpfs needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_file_gets_its_bytes_owner_and_mode_and_the_missing_folders(tmp_path: Path) -> None:
    row = file_row(tmp_path / "etc/pdctl/x.yaml")
    put_file(row, "", None)
    assert observe_rows([row], "chat", [], set()) == [
        {name: row[name] for name in ("kind", "path", "digest", "owner", "group", "mode", "secret")}
    ]
    assert (tmp_path / "etc").stat().st_mode & 0o777 == 0o755


@needs_root
def test_a_file_can_be_given_away(tmp_path: Path) -> None:
    put_file(file_row(tmp_path / "x", owner="nobody", group="daemon"), "", None)
    assert (tmp_path / "x").owner() == "nobody" and (tmp_path / "x").group() == "daemon"


def test_an_unknown_owner_is_named(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"/x: .*nobody-has-this-name"):
        put_file(file_row(tmp_path / "x", owner="nobody-has-this-name"), "", None)
    assert list(tmp_path.iterdir()) == []


def test_a_source_of_another_digest_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle/model").write_bytes(b"broken")
    (tmp_path / "x").write_bytes(b"old")
    row = file_row(tmp_path / "x", b"weights", content=None, source="model")
    with pytest.raises(Problem, match=r"/x: its source has digest sha256:\w+, wanted sha256:"):
        put_file(row, str(tmp_path / "bundle"), None)
    assert (tmp_path / "x").read_bytes() == b"old" and not (tmp_path / f"x{NEW}").exists()
    with pytest.raises(Problem, match="bundle/gone is not on this host"):
        put_file(dict(row, source="gone"), str(tmp_path / "bundle"), None)
    (tmp_path / "bundle/model").write_bytes(b"weights")
    put_file(row, str(tmp_path / "bundle"), None)
    assert (tmp_path / "x").read_bytes() == b"weights"


def test_a_full_disk_is_told_and_leaves_what_was_there(tiny_disk: Path) -> None:
    path = tiny_disk / "x"
    path.write_bytes(b"old")
    with pytest.raises(Problem, match=r"/x was not written: No space left on device; .* unchanged"):
        put_file(file_row(path, b"n" * 200_000), "", None)
    assert path.read_bytes() == b"old" and [entry.name for entry in tiny_disk.iterdir()] == ["x"]


def test_a_link_is_replaced_and_what_it_names_stays(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"mine")
    (tmp_path / "x").symlink_to(tmp_path / "victim")
    (tmp_path / f"x{NEW}").symlink_to(tmp_path / "victim")
    put_file(file_row(tmp_path / "x"), "", None)
    assert not (tmp_path / "x").is_symlink() and (tmp_path / "x").read_bytes() == b"hello\n"
    assert (tmp_path / "victim").read_bytes() == b"mine"


def test_a_directory_in_a_files_place_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(Problem, match="/x is a directory where a file must be"):
        put_file(file_row(tmp_path / "x"), "", None)


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    seen = []

    def chunks() -> Iterator[bytes]:
        for _ in range(3):
            seen.append(path.read_bytes())
            yield b"new"

    write_file(file_row(path, b"newnewnew"), chunks())
    assert seen == [b"old"] * 3 and path.read_bytes() == b"newnewnew"


def test_a_secret_without_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="values of this secret file were not handed over"):
        put_file(file_row(tmp_path / "x", secret=True), "", None)


def test_a_secret_value_with_a_nul_byte_is_refused_without_telling_it() -> None:
    with pytest.raises(Problem) as caught:
        render_environment({"HF_TOKEN": "hf_\0x"})
    assert "HF_TOKEN" in str(caught.value) and "hf_" not in str(caught.value)


def test_a_directory_gets_owner_and_mode_also_when_it_exists(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0o777)
    for path in (tmp_path / "d", tmp_path / "a/b"):
        put_directory(directory_row(path))
        assert path.stat().st_mode & 0o777 == 0o750
    os.close(os.open(tmp_path / "f", os.O_CREAT))
    with pytest.raises(Problem, match="/f is not a directory"):
        put_directory(directory_row(tmp_path / "f"))
