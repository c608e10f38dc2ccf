"""The NVLink fabric: engines start once it has every GPU, or an error names those that it has not."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils import pdctl_driver
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_fabric import outside, wait_fabric

ROWS = [{"kind": "unit", "name": "pdctl-chat-decoder-0.service", "fabric_s": 2}]
DONE = "".join(f"{index}, Completed, Success\n" for index in range(8))
ONE_LEFT = DONE.replace("5, Completed, Success", "5, In Progress, N/A")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the host's nvidia-smi, which prints one of the files in `says` after the other."""
    (tmp_path / "says").mkdir()
    smi = (
        f"cd {tmp_path}/says && set -- * && cat $1 && echo x >> ../asked && if [ $# -gt 1 ]; then rm $1; fi\n"
        f"[ ! -e ../broken ] || exit 9\n"
    )
    program(tmp_path / "nvidia-smi", smi)
    program(tmp_path / "systemctl", f"cat {tmp_path}/service\n")
    (tmp_path / "service").write_text("active\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def says(host: Path, *answers: str) -> None:
    for number, answer in enumerate(answers):
        (host / f"says/{number}").write_text(answer)


def test_gpus_that_are_taken_in_are_not_waited_for(host: Path) -> None:
    says(host, DONE)
    wait_fabric(ROWS)
    assert (host / "asked").read_text() == "x\n"


def test_it_waits_until_the_last_gpu_is_taken_in(host: Path) -> None:
    says(host, ONE_LEFT, ONE_LEFT, DONE)
    wait_fabric(ROWS, pause=0.0)
    assert (host / "asked").read_text() == "x\n" * 3


def test_a_limit_that_passes_names_the_gpu_and_its_state(host: Path) -> None:
    says(host, ONE_LEFT)
    with pytest.raises(
        Problem, match=r"after 1 s .*: GPU 5 is In Progress \(status N/A\); .*active"
    ) as error:
        wait_fabric([{**ROWS[0], "fabric_s": 1}], pause=0.05)
    assert "GPU 4" not in str(error.value) and "No engine was started" in str(error.value)


@pytest.mark.parametrize("service", ["failed", "inactive"])
def test_without_fabric_manager_nothing_is_waited_for(host: Path, service: str) -> None:
    says(host, ONE_LEFT)
    (host / "service").write_text(f"{service}\n")
    with pytest.raises(Problem, match=rf"GPU 5 is In Progress .* nvidia-fabricmanager is {service}"):
        wait_fabric([{**ROWS[0], "fabric_s": 600}])


def test_a_fabric_manager_of_another_version_is_told_with_both(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the GPUs still say what it told them before it ended."""
    says(host, DONE)
    (host / "service").write_text("failed\n")
    program(host / "nv-fabricmanager", "echo 'Fabric Manager version is : 550.127.05'\n")
    (host / "driver").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.120  Release\n"
    )
    monkeypatch.setattr(pdctl_driver, "VERSION", str(host / "driver"))
    with pytest.raises(Problem) as error:
        wait_fabric(ROWS)
    assert (
        "nvidia-fabricmanager is failed, its version 550.127.05, the driver in memory 550.120, which"
        in str(error.value)
    )
    assert "No engine was started" in str(error.value)
    says(host, "0, N/A, N/A\n")
    wait_fabric(ROWS)  # no GPU that a fabric would take in


def test_an_nvidia_smi_that_fails_is_told(host: Path) -> None:
    says(host, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
    (host / "broken").touch()
    with pytest.raises(Problem, match=r"couldn't communicate .* may need a reboot"):
        wait_fabric(ROWS)


def test_units_that_ask_for_no_fabric_are_not_held_up(host: Path) -> None:
    (host / "broken").touch()
    wait_fabric([{**ROWS[0], "fabric_s": 0}, {"kind": "unit", "name": "proxy"}])
    assert not (host / "asked").exists()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("0, N/A, N/A\n1, [N/A], [N/A]\n", {}),
        ("0, Completed, Insufficient Resources\n", {"0": ("Completed", "Insufficient Resources")}),
        ("0, Not Started, N/A\n", {"0": ("Not Started", "N/A")}),
        ("", {}),
    ],
)
def test_states_that_drivers_print(text: str, left: dict[str, tuple[str, str]]) -> None:
    assert outside(text) == left
