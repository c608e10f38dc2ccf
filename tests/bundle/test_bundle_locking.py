"""`pdctl lock` with the real uv, against a small index of wheels made here: no network."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pdctl.bundle import locking
from pdctl.bundle.locking import resolve_lock, write_lock
from pdctl.bundle.uv import Settings, index_settings, uv_program
from pdctl.desired import desire
from pdctl.desired.locking import changes, judged_with_lock, wanted
from pdctl.errors import BundleError
from pdctl.parts.cluster_lock import ClusterLock, lock_text, read_lock
from pdctl.spec.load import inspect
from pdctl.state import Venv
from pdctl.topology import Topology
from pdctl.topology.judge import Judgement, judge
from tests.spec.breaking import sound_but_for

ABI = "cp312-cp312-manylinux_2_28_x86_64"
WHEELS = (
    ("torch", "2.13.0", ABI, ("nvidia-stub>=1",)),
    ("torch", "2.13.0+cpu", ABI, ()),
    ("torch", "2.14.0", ABI, ()),
    ("vllm", "0.32.0", "cp38-abi3-manylinux_2_28_x86_64", ("torch==2.13.0", "numpy<3")),
    ("vllm", "0.33.0", "cp38-abi3-manylinux_2_28_x86_64", ("torch==2.14.0",)),
    ("lmcache", "0.5.6", ABI, ("numpy<=2.2.6",)),
    ("nixl", "1.5.1", "py3-none-any", ()),
    ("nixl", "1.5.0", "py3-none-any", ()),
    ("numpy", "2.2.6", ABI, ()),
    ("numpy", "2.2.5", ABI, ()),
    ("numpy", "2.3.0", ABI, ()),
    ("numpy", "2.2.6", "cp311-cp311-manylinux_2_28_x86_64", ()),  # of another Python
    ("numpy", "2.2.6", "cp312-cp312-manylinux_2_39_x86_64", ()),  # of a newer glibc than the hosts'
    ("nvidia-stub", "1.0", "py3-none-any", ()),
    ("aiohttp", "3.10.0", "py3-none-any", ("yarl",)),
    ("yarl", "1.0", "py3-none-any", ()),
    ("msgpack", "1.1.0", "py3-none-any", ()),
    ("pyzmq", "27.0.0", "py3-none-any", ()),
)


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of these wheels, the only place that pip is told of."""
    uv_program(print)  # from the cache, or once from pip's index
    folder = tmp_path / "offered"
    folder.mkdir()
    for name, version, tag, requires in WHEELS:
        wheel(folder, name, version, tag, requires)
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return folder


def wheel(folder: Path, name: str, version: str, tag: str, requires: tuple[str, ...] = ()) -> None:
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as archive:
        archive.writestr(f"{stem}.dist-info/METADATA", metadata)
        archive.writestr(f"{stem}.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")


def topology(stack: str = "stack: cuda13-2026\n") -> Topology:
    return judge(inspect(sound_but_for(stack), "cluster.yaml")).sound()


def locked(before: ClusterLock | None = None, stack: str = "stack: cuda13-2026\n") -> ClusterLock:
    return resolve_lock("chat", wanted(topology(stack)), before, lambda text: None)


def versions(lock: ClusterLock) -> Mapping[str, str]:
    return {entry.name: entry.version for entry in lock.environments["engine-cuda", "3.12"].entries}


def test_the_stack_for_gpus_resolves_to_one_version_and_its_hash_each(offered: Path) -> None:
    lock = locked()
    assert versions(lock) == {
        "lmcache": "0.5.6",
        "nixl": "1.5.1",
        "numpy": "2.2.6",
        "nvidia-stub": "1.0",
        "torch": "2.13.0",  # not the build for CPU under the same number
        "vllm": "0.32.0",
    }
    numpy = next(e for e in lock.environments["engine-cuda", "3.12"].entries if e.name == "numpy")
    data = (offered / f"numpy-2.2.6-{ABI}.whl").read_bytes()
    assert numpy.hashes == (f"sha256:{hashlib.sha256(data).hexdigest()}",)
    assert lock.packages["ubuntu-22.04"]["nvidia-driver-580-server-open"] == "580.95.05-0ubuntu0.22.04.2"
    assert {entry.name for entry in lock.environments["proxy", "3.10"].entries} >= {"aiohttp", "yarl"}


def test_the_text_is_sorted_names_no_address_and_reads_back(offered: Path, tmp_path: Path) -> None:
    lock, path = locked(), tmp_path / "cluster.lock"
    write_lock(lock, path)
    text = path.read_text()
    assert "://" not in text and str(offered) not in text
    assert lock_text(read_lock(path)) == text == lock_text(locked())
    entries = text.partition("[engine-cuda 3.12]\n")[2].partition("\n\n")[0].splitlines()
    assert entries == sorted(entries) and all(" --hash=sha256:" in line for line in entries)


def test_the_lock_is_what_hosts_get(offered: Path, tmp_path: Path) -> None:
    write_lock(locked(), tmp_path / "cluster.lock")
    judged = judged_with_lock(
        judge(inspect(sound_but_for("stack: cuda13-2026\n"), "c")), tmp_path / "cluster.yaml"
    )
    venvs = {r.path.rpartition("/")[2].rpartition("-")[0]: r for r in judged_venvs(judged)}
    lines = venvs["engine-cuda"].requirements
    assert any(line.startswith("numpy==2.2.6 --hash=sha256:") for line in lines) and len(lines) == 6
    assert venvs["engine-cuda"].wheels == ()  # gigabytes: hosts fetch them by hash
    plain = next(r for r in desire(topology()).values() if isinstance(r, Venv) and "engine-cuda" in r.path)
    assert plain.digest != venvs["engine-cuda"].digest
    assert any(line.startswith("aiohttp==3.10.0 ") for line in venvs["proxy"].requirements)


def judged_venvs(judged: Judgement) -> list[Venv]:
    return [each for each in desire(judged.sound()).values() if isinstance(each, Venv)]


def test_one_changed_pin_moves_nothing_else(offered: Path) -> None:
    before = locked()
    wheel(offered, "numpy", "2.2.6.post1", ABI)  # newer, but nobody asked for it
    wheel(offered, "yarl", "1.1", "py3-none-any")
    after = locked(before, 'stack: {base: cuda13-2026, nixl: "1.5.0"}\n')
    assert [tuple(change) for change in changes(before, after)] == [
        ("nixl (engine-cuda 3.12)", "1.5.1", "1.5.0")
    ]
    fresh = locked(None)
    assert {change.name for change in changes(before, fresh)} == {"yarl (proxy 3.10)"}


def test_an_old_version_that_is_gone_or_excluded_gives_way(offered: Path) -> None:
    before = locked()
    (offered / f"numpy-2.2.6-{ABI}.whl").unlink()
    assert [tuple(change) for change in changes(before, locked(before))] == [
        ("numpy (engine-cuda 3.12)", "2.2.6", "2.2.5")
    ]


def test_versions_that_exclude_each_other_are_one_error_that_says_which(offered: Path) -> None:
    wheel(offered, "lmcache", "0.5.6", ABI, ("numpy<2",))
    with pytest.raises(BundleError) as error:
        locked()
    assert "engine-cuda for Python 3.12 cannot be resolved: Because" in error.value.message
    assert "numpy" in error.value.message and "lmcache==" in error.value.message
    assert str(offered) not in error.value.message


def test_a_wheel_that_is_not_there_is_named(offered: Path) -> None:
    (offered / "nixl-1.5.1-py3-none-any.whl").unlink()
    with pytest.raises(BundleError, match=r"nixl===?1\.5\.1"):
        locked()


def test_an_index_that_does_not_answer_is_a_clear_error_without_its_address(
    offered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:hunter2@127.0.0.1:9/simple")  # discard: nobody listens
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(BundleError) as error:
        locked()
    assert "the index cannot be reached" in error.value.message
    assert "hunter2" not in str(error.value) and "127.0.0.1:9" not in str(error.value)
    assert "the lock is as it was" in (error.value.hint or "")


def test_pips_settings_are_uvs_and_uvs_own_win(offered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert index_settings() == [Settings({"UV_FIND_LINKS": str(offered)}, ("--no-index",))]
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://one/simple http://two/simple")
    main, both = index_settings()
    assert main == Settings({"UV_FIND_LINKS": str(offered)}, ())
    assert both.variables == {
        "UV_FIND_LINKS": str(offered),
        "UV_INDEX": "http://one/simple http://two/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://own/simple")
    assert index_settings() == [Settings()]


SLOW = """
import os, signal, sys, threading
from pathlib import Path
from pdctl.bundle import manifest
from pdctl.bundle.locking import write_lock
from pdctl.parts.cluster_lock import read_lock
replace = Path.replace
def killed(self, target):
    os.kill(os.getpid(), signal.{signal})
    threading.Event().wait()
Path.replace = killed
path = Path(sys.argv[1])
lock = read_lock(path)
write_lock(type(lock)("other", lock.source, lock.packages, lock.environments, {{}}), path)
"""


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGINT"])
def test_whoever_is_ended_while_writing_leaves_the_old_lock(
    offered: Path, tmp_path: Path, signal: str
) -> None:
    path = tmp_path / "cluster.lock"
    write_lock(locked(), path)
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", SLOW.format(signal=signal), str(path)], capture_output=True, check=False
    )
    assert done.returncode != 0 and path.read_bytes() == before


@pytest.fixture(autouse=True)
def platform_is_the_oldest_hosts() -> Iterator[None]:
    """Ubuntu 22.04 has glibc 2.35."""
    assert locking.PLATFORM.endswith("manylinux_2_35")
    yield
