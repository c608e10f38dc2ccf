"""Imports tried from a real environment, as another user: what would go wrong in a service is told before."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_proofs
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_observe_venvs import observe_venv
from ansible.module_utils.pdctl_proofs import outcome, prove
from ansible.module_utils.pdctl_venvs import put_venvs, write_marker

from pdctl.knowledge.proofs import ALARMS
from tests.playbooks.conftest import needs_root

pytestmark = needs_root
USER = "nobody"
WHO = """\
import os, pwd
print(pwd.getpwuid(os.geteuid()).pw_name, os.getgroups(), os.environ["UCX_TLS"])
open(os.environ["VLLM_CACHE_ROOT"] + ".txt", "w").close()
print(os.environ["HOME"] == os.getcwd())
"""
MAPPED = """\
import mmap, os
kept = [mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ) for path in {paths!r}]
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """An environment that others may read; pytest's own folders are closed to them."""
    with tempfile.TemporaryDirectory(prefix="venvs-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        # The interpreter that runs these tests may lie where only its owner comes.
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", folder / "v"], check=True)
        yield folder


@pytest.fixture
def site(home: Path) -> Iterator[Path]:
    """Where its packages are."""
    site = next((home / "v").glob("lib/python3.*/site-packages"))
    there = set(site.iterdir())
    yield site
    for path in set(site.iterdir()) - there:
        for each in [*sorted(path.rglob("*"), reverse=True), path]:
            each.rmdir() if each.is_dir() else each.unlink()


def package(site: Path, name: str, version: str, text: str = "", **modules: str) -> None:
    """An installed package; `modules` are texts by file name with `_so` or `_py` at its end."""
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(text)
    for file, content in modules.items():
        stem, _, ending = file.rpartition("_")
        (site / name / f"{stem}.{ending}").write_text(content)
    (site / f"{name}-{version}.dist-info").mkdir()
    (site / f"{name}-{version}.dist-info/METADATA").write_text(f"Name: {name}\nVersion: {version}\n")


def row(site: Path, imports: list[list[str]], **more: Any) -> dict[str, Any]:
    proof = {
        "name": "decoder-0",
        "user": USER,
        "environment": [],
        "imports": imports,
        "native": [],
        "versions": {},
        "cuda": "",
        "ucx": "",
        "agent": False,
        "alarms": [],
        "mend": "Pin others",
        **more,
    }
    path = str(site.parents[2])
    return {"kind": "venv", "path": path, "digest": "d", "python": "3", "damage": [], "proof": "p1"} | {
        "proofs": [json.dumps(proof)]
    }


def why(asked: dict[str, Any]) -> str:
    with pytest.raises(Problem) as caught:
        prove(asked)
    return str(caught.value)


def test_what_imports_well_is_let_through(site: Path) -> None:
    package(site, "lmcache", "0.5.6")
    prove(row(site, [["lmcache.c_ops", "lmcache"]], versions={"lmcache": "0.5.6"}))


def test_a_module_that_does_not_load_is_told_with_its_own_words_and_the_versions(site: Path) -> None:
    package(site, "torch", "2.13.0+cu130")
    package(site, "lmcache", "0.5.3", c_ops_so="no library at all")
    versions = {"torch": "2.13.0", "lmcache": "0.5.3"}
    said = why(row(site, [["torch"], ["lmcache.c_ops", "lmcache.cuda_ops"]], versions=versions))
    assert "ImportError" in said and "c_ops.so" in said, said
    assert f"tried as {USER} with the variables of decoder-0" in said
    assert "(torch 2.13.0, lmcache 0.5.3); nothing was switched to it" in said and "Pin others" in said


def test_a_module_of_which_no_name_is_there_is_told_by_its_last(site: Path) -> None:
    package(site, "lmcache", "0.5.6")
    said = why(row(site, [["lmcache.c_ops", "lmcache.cuda_ops"]]))
    assert "No module named 'lmcache.cuda_ops'" in said


def test_what_a_module_itself_lacks_is_not_taken_for_another_name(site: Path) -> None:
    package(site, "lmcache", "0.5.6", c_ops_py="import cupy_of_nobody", cuda_ops_py="")
    assert "cupy_of_nobody" in why(row(site, [["lmcache.c_ops", "lmcache.cuda_ops"]]))


def test_python_in_the_place_of_a_compiled_module_is_the_slow_path(site: Path) -> None:
    package(site, "lmcache", "0.5.3", c_ops_py="")
    names = ["lmcache.c_ops", "lmcache.cuda_ops"]
    said = why(row(site, [names], native=[names]))
    assert "c_ops.py, a slow substitute in Python for its compiled module" in said


def test_a_library_that_says_it_goes_on_with_less_fails(site: Path) -> None:
    words = "LMCache WARNING: Failed to import backend lmcache.c_ops: libcudart.so.13: cannot open"
    package(site, "lmcache", "0.5.3", f"import sys; print({words!r}, file=sys.stderr)")
    said = why(row(site, [["lmcache"]], alarms=["Failed to import backend lmcache.c_ops"]))
    assert words in said


def test_without_a_driver_no_other_pin_is_recommended(site: Path) -> None:
    words = "libcuda.so.1: cannot open shared object file: No such file or directory"
    package(site, "vllm", "1.0", f'print("Failed to import from vllm._C with ImportError: {words}")')
    package(site, "lmcache", "1.0", f'raise ImportError("{words}")')
    said = why(row(site, [["vllm"]], alarms=["Failed to import from vllm"]))
    assert words in said and "apply --layer packages" in said and "Pin others" not in said
    assert "apply --layer packages" in why(row(site, [["lmcache"]]))


def test_another_version_than_the_locked_one_is_told_with_both(site: Path) -> None:
    package(site, "lmcache", "0.5.3")
    said = why(row(site, [["lmcache"]], versions={"lmcache": "0.5.6"}))
    assert "lmcache is 0.5.3, the stack has 0.5.6" in said


def test_a_torch_for_another_cuda_is_told_with_both(site: Path) -> None:
    package(site, "torch", "2.13.0", "from torch import version", version_py="cuda = '12.8'")
    assert "built for CUDA 12.8, the stack has CUDA 13" in why(row(site, [["torch"]], cuda="13"))
    prove(row(site, [["torch"]], cuda="12"))


def test_what_comes_from_elsewhere_is_told_with_its_place(site: Path, home: Path) -> None:
    package(site, "vllm", "0.32.0")
    other = home / "other"
    other.mkdir()
    (other / "vllm.py").write_text("")
    said = why(row(site, [["vllm"]], environment=[["PYTHONPATH", str(other)]]))
    assert f"vllm comes from {other}/vllm.py, not from this environment" in said


def test_two_ucx_in_one_process_are_told_with_both_paths(site: Path, home: Path) -> None:
    paths = [str(home / "libucp.so.0"), str(home / "libucp-0abc.so.0.0.0"), str(home / "libucprefix.so")]
    for path in paths:
        Path(path).write_text("x")
    package(site, "nixl", "1.5.1", MAPPED.format(paths=paths[:1] + paths[2:]))
    prove(row(site, [["nixl"]]))
    (site / "nixl/__init__.py").write_text(MAPPED.format(paths=paths))
    said = why(row(site, [["nixl"]]))
    assert f"two UCX are loaded in one process, {paths[1]} and {paths[0]}" in said


def test_another_ucx_than_the_pinned_one_is_told(site: Path) -> None:
    package(site, "nixl", "1.5.1")
    assert "UCX none is loaded, the stack has 1.19.0" in why(row(site, [["nixl"]], ucx="1.19.0"))


def test_a_crash_and_a_hang_are_no_success(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(site, "vllm", "0.32.0", "import os; print('before the crash', flush=True); os.abort()")
    assert "did not come to an end: before the crash" in why(row(site, [["vllm"]]))
    (site / "vllm/__init__.py").write_text("import threading; threading.Event().wait()")
    asked = row(site, [["vllm"]])
    found, printed = outcome(json.loads(asked["proofs"][0]), asked["path"], limit=0.5)
    assert found is None and printed == ["no end within 0.5 s"]


def test_it_runs_as_the_service_with_its_variables_and_caches_of_its_own(site: Path) -> None:
    package(site, "vllm", "0.32.0", WHO)
    home = "/var/cache/pdctl/chat/decoder-0"
    pairs = [["HOME", home], ["VLLM_CACHE_ROOT", f"{home}/vllm"], ["UCX_TLS", "tcp"]]
    asked = row(site, [["vllm"]], environment=pairs)
    found, printed = outcome(json.loads(asked["proofs"][0]), asked["path"])
    assert found and not found["failed"], found
    assert printed[0].split()[0] == USER and "0," not in printed[0] and printed[0].endswith("tcp")
    assert printed[1] == "True" and not Path(home).exists()


def test_what_was_tried_is_known_until_the_environment_is_built_anew(site: Path) -> None:
    package(site, "vllm", "0.32.0")
    asked = row(site, [["vllm"]])
    write_marker(asked["path"], asked)
    put_venvs([asked], "/no bundle is needed")
    put_venvs([dict(asked, proof="p2")], "/no bundle is needed")
    for proof in ("p1", "p2"):
        seen = observe_venv(dict(asked, proof=proof))
        assert seen is not None and seen["proof"] == proof and seen["damage"] == []
    seen = observe_venv(dict(asked, proof="p3"))
    assert seen is not None and seen["proof"] == "p2"


def test_a_failure_leaves_it_built_and_untried(site: Path) -> None:
    package(site, "vllm", "0.32.0", "raise ImportError('no kernel for it')")
    asked = row(site, [["vllm"]])
    write_marker(asked["path"], asked)
    with pytest.raises(Problem, match="no kernel for it"):
        put_venvs([asked], "/no bundle is needed")
    seen = observe_venv(asked)
    assert seen is not None and seen["proof"] == "" and seen["damage"] == []


def test_an_interpreter_that_the_service_may_not_run_is_told(site: Path, home: Path) -> None:
    package(site, "vllm", "0.32.0")
    (home / "v/bin").chmod(0o700)
    try:
        said = why(row(site, [["vllm"]]))
    finally:
        (home / "v/bin").chmod(0o755)
    assert f"{USER} cannot run {home}/v/bin/python: Permission denied" in said


def test_the_managers_variables_count_too(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdctl_proofs, "manager_environment", lambda: {"LD_LIBRARY_PATH": "/opt/hpcx/lib"})
    package(site, "vllm", "0.32.0", "import os; print(os.environ['LD_LIBRARY_PATH'])")
    asked = row(site, [["vllm"]])
    assert outcome(json.loads(asked["proofs"][0]), asked["path"])[1] == ["/opt/hpcx/lib"]


def test_a_ucx_older_than_nixl_was_built_for_is_told_in_its_own_words(site: Path) -> None:
    words = "ucp_context.c:2257 UCX  WARN  UCP API version is incompatible: required >= 1.20, actual 1.18.0"
    package(site, "nixl", "1.5.1", f"print({words!r})")
    assert words in why(row(site, [["nixl"]], alarms=list(ALARMS)))
