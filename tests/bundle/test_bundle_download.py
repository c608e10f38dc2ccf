import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pdctl.bundle import download as module
from pdctl.bundle.download import download
from pdctl.bundle.manifest import PARTIAL
from pdctl.errors import BundleError
from pdctl.parts.lock import Entry
from pdctl.parts.wheel import metadata_stub


@pytest.fixture(autouse=True)
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only place where pip looks."""
    folder = tmp_path / "offered"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def offer(folder: Path, name: str, version: str = "1.0") -> Entry:
    file, data = metadata_stub(name, version)
    (folder / file).write_bytes(data)
    return Entry(name, version, (f"sha256:{hashlib.sha256(data).hexdigest()}",))


def test_what_is_locked_arrives_whole_and_with_its_hash(offered: Path, tmp_path: Path) -> None:
    entries = [offer(offered, "some-part"), offer(offered, "other")]
    said: list[str] = []
    got = download(entries, "3.11", tmp_path / "wheels", said.append)
    assert {f"sha256:{hashlib.sha256(w.path.read_bytes()).hexdigest()}" for w in got.values()} == {
        entry.hashes[0] for entry in entries
    }
    assert sorted(p.name for p in (tmp_path / "wheels").iterdir()) == sorted(
        w.path.name for w in got.values()
    )
    assert said == ["wheels: 0 of 2, fetching some-part, other", "wheels: 2 of 2"]


def test_a_file_with_another_hash_is_refused_by_name(offered: Path, tmp_path: Path) -> None:
    right, other = offer(offered, "right"), offer(offered, "changed")
    wanted = Entry("changed", "1.0", ("sha256:" + "0" * 64,))
    with pytest.raises(BundleError) as error:
        download([wanted, right], "3.11", tmp_path / "wheels", print)
    assert "changed 1.0" in str(error.value)
    assert other.hashes[0].removeprefix("sha256:") in str(error.value) and "0" * 64 in str(error.value)
    assert not list((tmp_path / "wheels").glob("changed*"))


def test_a_wheel_that_no_index_offers_is_named(offered: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"the wheel of missing 2\.0 cannot be had: Could not find"):
        download([Entry("missing", "2.0", ("sha256:" + "0" * 64,))], "3.11", tmp_path / "wheels", print)
    assert not list((tmp_path / "wheels").iterdir())


def test_only_what_is_missing_or_spoilt_is_fetched_again(offered: Path, tmp_path: Path) -> None:
    kept, spoilt = offer(offered, "kept"), offer(offered, "spoilt")
    got = download([kept, spoilt], "3.11", tmp_path / "wheels", print)
    (offered / got[kept].path.name).unlink()  # could not be fetched again
    got[spoilt].path.write_bytes(got[spoilt].path.read_bytes()[:-10])
    again = download([kept, spoilt], "3.11", tmp_path / "wheels", print)
    assert again == got
    assert f"sha256:{hashlib.sha256(got[spoilt].path.read_bytes()).hexdigest()}" == spoilt.hashes[0]


def test_a_wheel_for_other_machines_is_not_taken(offered: Path, tmp_path: Path) -> None:
    entry = offer(offered, "native")
    (wheel,) = offered.glob("native*")
    wheel.rename(offered / "native-1.0-cp311-cp311-macosx_11_0_arm64.whl")
    with pytest.raises(BundleError, match="native"):
        download([entry], "3.11", tmp_path / "wheels", print)


def test_a_wheel_for_the_hosts_python_is_taken_whatever_runs_pip(offered: Path, tmp_path: Path) -> None:
    entry = offer(offered, "native")
    (wheel,) = offered.glob("native*")
    wheel.rename(offered / "native-1.0-cp310-cp310-manylinux_2_28_x86_64.whl")
    (got,) = download([entry], "3.10", tmp_path / "wheels", print).values()
    assert "cp310" in got.path.name


def test_a_cpu_build_that_the_usual_index_lacks_comes_from_its_vendors(
    offered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor = tmp_path / "vendor" / "torch"
    vendor.mkdir(parents=True)
    entry = offer(vendor, "torch", "2.13.0+cpu")
    (wheel,) = vendor.iterdir()
    (vendor / "index.html").write_text(f'<a href="{wheel.name.replace("+", "%2B")}">{wheel.name}</a>')
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", offered.as_uri())
    monkeypatch.setattr(module, "TORCH_CPU_INDEX", (tmp_path / "vendor").as_uri())
    (got,) = download([entry], "3.11", tmp_path / "wheels", print).values()
    assert got.path.name == wheel.name


def test_after_a_kill_the_next_call_goes_on_and_nothing_half_made_stays(
    offered: Path, tmp_path: Path
) -> None:
    entries = [offer(offered, f"part-{number:02}") for number in range(34)]  # three calls of pip
    folder = tmp_path / "wheels"
    program = (
        "import ast, sys; from pathlib import Path\n"
        "from pdctl.bundle.download import download; from pdctl.parts.lock import Entry\n"
        "rows = ast.literal_eval(sys.argv[2])\n"
        "download([Entry(*row) for row in rows], '3.11', Path(sys.argv[1]), print)\n"
    )
    rows = repr([(entry.name, entry.version, entry.hashes) for entry in entries])
    child = subprocess.Popen([sys.executable, "-c", program, str(folder), rows], start_new_session=True)
    deadline, pause = time.monotonic() + 30, threading.Event()
    while not list(folder.glob("*.whl")) and time.monotonic() < deadline:
        pause.wait(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    survived = sorted(p.name for p in folder.glob("*.whl"))
    assert 0 < len(survived) < 34
    for name in survived:
        (offered / name).unlink()  # whoever fetched them again would fail
    module.remove_partial(folder)
    got = download(entries, "3.11", folder, print)
    assert len(got) == 34
    assert not list(folder.glob(f"{PARTIAL}*"))
