from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.pdctl_observe_venvs import MARKER, observe_venv, scan
from ansible.module_utils.pdctl_venvs import write_marker


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    path = tmp_path / "proxy-d1"
    package = path / "lib/python3/site-packages/thing"
    package.mkdir(parents=True)
    for name in ("__init__.py", "core.so", "data.json"):
        (package / name).write_text(name)
    (path / "bin").mkdir()
    (path / "bin/python").symlink_to(sys.executable)
    write_marker(str(path), {"digest": "d1", "python": "3.11"})
    return path


def seen(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = observe_venv({"kind": "venv", "path": str(path)})
    return row


def damage(path: Path) -> list[str]:
    found: list[str] = seen(path)["damage"]
    return found


def test_an_untouched_environment_has_its_markers_digest_and_no_damage(venv: Path) -> None:
    shown = {"digest": "d1", "python": "3.11", "damage": [], "proof": ""}
    assert seen(venv) == {"kind": "venv", "path": str(venv), **shown}


def test_an_environment_without_marker_is_incomplete(venv: Path) -> None:
    (venv / MARKER).unlink()
    assert (seen(venv)["digest"], damage(venv)) == ("", ["incomplete"])
    (venv / MARKER).write_text("{")
    assert damage(venv) == ["incomplete"]


def test_a_missing_file_is_damage(venv: Path) -> None:
    (venv / "lib/python3/site-packages/thing/data.json").unlink()
    assert damage(venv) == ["lib/python3/site-packages/thing/data.json"]


def test_an_edited_file_is_damage_even_when_its_size_is_the_same(venv: Path) -> None:
    (venv / "lib/python3/site-packages/thing/__init__.py").write_text("__INIT__.py")
    assert damage(venv) == ["lib/python3/site-packages/thing/__init__.py"]


def test_an_added_file_is_damage_where_python_would_import_it(venv: Path) -> None:
    folder = venv / "lib/python3/site-packages/thing"
    (folder / "notes.txt").write_text("")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/core.cpython-311.pyc").write_text("")
    assert damage(venv) == []
    (folder / "sitecustomize.py").write_text("")
    assert damage(venv) == ["lib/python3/site-packages/thing/sitecustomize.py"]


def test_a_vanished_interpreter_is_damage(venv: Path) -> None:
    link = venv / "bin/python"
    times = link.lstat()
    link.unlink()
    link.symlink_to("x" * times.st_size)
    os.utime(link, ns=(times.st_atime_ns, times.st_mtime_ns), follow_symlinks=False)
    assert damage(venv) == ["bin/python (its interpreter is gone)"]


def test_many_damaged_files_are_counted(venv: Path) -> None:
    for number in range(9):
        (venv / f"m{number}.py").write_text("")
    assert damage(venv) == [*(f"m{number}.py" for number in range(5)), "and 4 more"]


def test_a_large_environment_is_walked_within_a_second(tmp_path: Path) -> None:
    """6,000 files here within a tenth of a second of CPU: 60,000 within one."""
    path = tmp_path / "large"
    for folder in range(60):
        (path / str(folder)).mkdir(parents=True)
        for name in range(100):
            os.close(os.open(path / str(folder) / f"{name}.py", os.O_CREAT))
    (path / "bin").mkdir()
    (path / "bin/python").symlink_to(sys.executable)
    write_marker(str(path), {"digest": "d", "python": "3"})
    assert sum(text.count("\n") + 1 for text in scan(str(path)).values()) == 6001
    begun = time.process_time()
    assert damage(path) == []
    assert time.process_time() - begun < 2
    assert json.loads((path / MARKER).read_text())["digest"] == "d"
