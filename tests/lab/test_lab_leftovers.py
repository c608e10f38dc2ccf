"""What `down` leaves: nothing, also after an `up` or a build that was interrupted anywhere."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pdctl.lab import Lab, machine
from pdctl.lab.cgroup import lab_group, populated
from pdctl.lab.network import plugged
from tests.labs import lab_hosts, ssh, until

pytestmark = pytest.mark.hosts


def traces(lab: Lab) -> set[str]:
    """Every place of the machine that still speaks of the lab."""
    words = (str(lab.paths.directory), lab.paths.lab_id)
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if " Z " in (process / "stat").read_text():  # dead; process 1 reaps it in its own time
                continue
            for file in ("mountinfo", "cgroup", "cmdline"):
                text = (process / file).read_bytes().decode(errors="replace")
                found |= {f"process {file}" for word in words if word in text}
        except OSError:  # ended while we looked
            continue
    found |= {"cgroup" for _ in lab_group(lab.paths.lab_id).parent.glob(f"{lab.paths.lab_id}*")}
    found |= {
        f"nspawn {path.parent.name}" for path in Path("/run/systemd/nspawn").glob(f"*/{lab.paths.lab_id}*")
    }
    shared = machine.SHARED / "inotify.json"
    found |= {"inotify"} if shared.exists() and lab.paths.lab_id in shared.read_text() else set()
    found |= {"file"} if lab.paths.directory.exists() else set()
    return found


def test_two_labs_share_addresses_and_nothing_else(tmp_path_factory: pytest.TempPathFactory) -> None:
    with lab_hosts(1, tmp_path_factory) as lab:
        with lab_hosts(1, tmp_path_factory, prefix="other") as other:
            assert ssh(lab, "198.18.0.10", "hostname").stdout == "h1\n"
            assert ssh(other, "198.18.0.10", "hostname").stdout == "other1\n"
        assert not traces(other)
        assert ssh(lab, "h1", "hostname").stdout == "h1\n"


def test_down_leaves_nothing_and_the_search_for_traces_finds_a_lab_that_is_up(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    limit = machine.WATCHES.read_text()
    with lab_hosts(2, tmp_path_factory) as lab:
        lab.serve(Path(__file__).parent)
        assert traces(lab) >= {
            *("process mountinfo", "process cgroup", "process cmdline"),
            *("cgroup", "nspawn propagate", "inotify", "file"),
        }
        assert machine.WATCHES.read_text() != limit
    assert not traces(lab)
    assert machine.WATCHES.read_text() == limit
    lab.down()
    assert not traces(lab)


MOMENTS: dict[str, Callable[[Lab], object]] = {
    "network begun": lambda lab: lab.paths.lab_netns.exists(),
    "first cable made": lambda lab: plugged(lab.paths),
    "first host started": lambda lab: populated(lab_group(lab.paths.lab_id) / "h1"),
    "last host started": lambda lab: populated(lab_group(lab.paths.lab_id) / "h3"),
}


def start_up(lab: Lab) -> subprocess.Popen[bytes]:
    program = f"from pdctl.lab import Lab; Lab({str(lab.paths.directory)!r}, {str(lab.cache)!r}).up(3)"
    return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL, process_group=0)


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_up_can_be_completed_and_removed(
    tmp_path: Path, moment: str, signal_: signal.Signals
) -> None:
    with Lab(tmp_path / "lab") as lab:
        with start_up(lab) as process:
            until(lambda: MOMENTS[moment](lab))
            os.killpg(process.pid, signal_)
        assert process.returncode != 0
        assert [host.power for host in lab.up(3).hosts] == ["on"] * 3
        assert all(ssh(lab, f"h{number}", "true").returncode == 0 for number in (1, 2, 3))
    assert not traces(lab)


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_up_can_be_removed_at_once(tmp_path: Path, moment: str) -> None:
    lab = Lab(tmp_path / "lab")
    with start_up(lab) as process:
        until(lambda: MOMENTS[moment](lab))
        os.killpg(process.pid, signal.SIGKILL)
    lab.down()
    assert not traces(lab)


def test_a_build_that_is_killed_leaves_nothing_after_down(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", cache=tmp_path / "cache")
    with start_up(lab) as process:
        until(lambda: list((tmp_path / "cache").glob("building-*/memory")))
        process.kill()  # alone: mmdebstrap lives on
    assert populated(lab_group(lab.paths.lab_id) / "build")
    lab.down()
    assert not traces(lab)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["lock"]
