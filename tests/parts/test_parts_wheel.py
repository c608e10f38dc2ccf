import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pdctl.parts.own import PARTS, own_wheel
from pdctl.parts.wheel import build_wheel, metadata_stub


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "greeter"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("from .inner import word\n")
    (folder / "inner" / "__init__.py").write_text("word = 'good day'\n")
    (folder / "__main__.py").write_text(
        "from . import word\n\n\ndef main():\n    print(word)\n\n\nif __name__ == '__main__':\n    main()\n"
    )
    (folder / "notes.txt").write_text("data beside the code\n")
    for left_out in ("__pycache__/x.pyc", "tests/test_x.py", ".cache/x", "ruff.toml"):
        (folder / left_out).parent.mkdir(exist_ok=True)
        (folder / left_out).write_text("not for hosts\n")
    return folder


def greeter(source: Path) -> tuple[str, bytes]:
    scripts = {"console_scripts": {"greet": "pdctl_greeter.__main__:main"}}
    return build_wheel(source, "pdctl_greeter", "1.2.0", ("aiohttp",), scripts, "Says good day")


def test_the_same_source_gives_the_same_bytes_whatever_its_times_and_place(
    source: Path, tmp_path: Path
) -> None:
    first = greeter(source)
    moved = source.rename(tmp_path / "elsewhere")
    for path in moved.rglob("*"):
        os.utime(path, (1, 1))
    assert greeter(moved) == first


def test_any_change_of_the_source_or_of_what_is_said_of_it_makes_another_version(source: Path) -> None:
    first, _ = greeter(source)
    other, _ = build_wheel(source, "pdctl_greeter", "1.2.0", (), {}, "Says good day")
    (source / "notes.txt").write_text("data beside the CODE\n")  # as many bytes as before
    changed, _ = greeter(source)
    assert len({first, other, changed}) == 3
    assert first.startswith("pdctl_greeter-1.2.0+d") and first.endswith("-py3-none-any.whl")


def test_tests_caches_and_hidden_files_stay_at_home(source: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(greeter(source)[1])) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == {
        f"pdctl_greeter/{n}" for n in ("__init__.py", "__main__.py", "inner/__init__.py", "notes.txt")
    }


def test_the_record_lists_every_file_with_its_hash_and_size(source: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(greeter(source)[1])) as wheel:
        record = next(name for name in wheel.namelist() if name.endswith("/RECORD"))
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
        assert rows.keys() == set(wheel.namelist())
        assert rows.pop(record) == ["", ""]
        for name, (digest, size) in rows.items():
            data = wheel.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={expected}", str(len(data)))


def test_pip_installs_it_and_its_command_runs(source: Path, tmp_path: Path) -> None:
    installed = install(greeter(source), tmp_path)
    said = subprocess.run(
        [installed / "bin" / "greet"], env={"PYTHONPATH": str(installed)}, capture_output=True, text=True
    )
    assert said.stdout == "good day\n"


def test_a_stub_makes_a_distribution_known_under_its_name(tmp_path: Path) -> None:
    installed = install(metadata_stub("vllm", "0.32.0+cpu"), tmp_path)
    ask = "import importlib.metadata as m; print(m.version('vllm'))"
    said = subprocess.run(
        [sys.executable, "-c", ask], env={"PYTHONPATH": str(installed)}, capture_output=True, text=True
    )
    assert said.stdout == "0.32.0+cpu\n"


@pytest.mark.parametrize("name", PARTS)
def test_each_of_our_parts_imports_nothing_of_pdctl_and_has_what_it_announces(
    name: str, tmp_path: Path
) -> None:
    part, wheel = PARTS[name], own_wheel(name)
    assert own_wheel(name) == wheel
    with zipfile.ZipFile(io.BytesIO(wheel.data)) as archive:
        code = {n: archive.read(n).decode() for n in archive.namelist() if n.endswith(".py")}
    assert not [n for n, text in code.items() if "import pdctl." in text or "from pdctl." in text]
    for targets in part.entry_points.values():
        for target in targets.values():
            module, function = target.split(":")
            stem = module.replace(".", "/")
            text = code.get(f"{stem}.py") or code[f"{stem}/__init__.py"]
            assert function in text


def install(wheel: tuple[str, bytes], tmp_path: Path) -> Path:
    name, data = wheel
    (tmp_path / name).write_bytes(data)
    target = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*command, "--target", str(target), str(tmp_path / name)], check=True)
    return target
