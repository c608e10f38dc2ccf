"""`pdctl doctor` on a host with a stand-in for the NVIDIA driver: whole, a GPU less, cut up, failing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.hosts.line import Line, Ran
from tests.labs import lab_hosts

pytestmark = pytest.mark.hosts

SPEC: dict[str, Any] = {
    "cluster": "gpus",
    "hosts": [
        {
            "name": "h1",
            "address": "198.18.0.10",
            "os": "debian-12",
            "gpus": {"count": 2, "model": "H100-SXM-80GB"},
        }
    ],
    "stack": "article-2025",
    "model": {"id": "Qwen/Qwen3-8B", "path": "/models/Qwen3-8B"},
    "serving": {"prefillers": {"count": 1}, "decoders": {"count": 1}},
    # What depends on the machine that the lab is on.
    "suppress": [
        {"rule": "FACT009", "reason": "nothing is installed here"},
        {"rule": "FACT034", "reason": "no vendor's repository here"},
        {"rule": "FACT028", "reason": "a lab in a container has its limits"},
        {"rule": "FACT029", "reason": "a lab in a container has its limits"},
    ],
}
PROC = "/proc/driver"
LOADED = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x)"
SMI = """#!/bin/sh
cd /etc/gpus || exit 9
[ ! -e broken ] || { cat broken; exit 12; }
case "$*" in
  topo*) cat topo;;
  nvlink*) cat links;;
  *fabric.state*) cat fabric;;
  *compute-apps*) ;;
  *) cat gpus;;
esac
"""
GPU = "{0}, GPU-{0}, NVIDIA H100 80GB HBM3, 81559, 0, 580.95.05, 00000000:{0}B:00.0, {1}\\n"
FILES = {
    "gpus": GPU.format(0, "Disabled") + GPU.format(1, "Disabled"),
    "topo": "\\tGPU0\\tGPU1\\tCPU Affinity\\nGPU0\\t X \\tNV18\\t0-1\\nGPU1\\tNV18\\t X \\t0-1\\n",
    "links": "GPU 0: H100\\n\\t Link 0: 26.562 GB/s\\nGPU 1: H100\\n\\t Link 0: 26.562 GB/s\\n",
    "fabric": "0, Completed, Success\\n1, Completed, Success\\n",
}
WELL = "; ".join(f"printf '{text}' > /etc/gpus/{name}" for name, text in FILES.items())


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with lab_hosts(1, tmp_path_factory) as lab:
        line = Line(lab, tmp_path_factory.mktemp("gpus"))
        line.spec = {**SPEC, "ssh": {"config": str(lab.ssh_config)}}
        line.save()
        line.inside(
            f"mkdir /etc/gpus; cat > /usr/bin/nvidia-smi <<'EOT'\n{SMI}EOT\nchmod 755 /usr/bin/nvidia-smi"
        )
        line.inside(
            f"mount -t tmpfs none {PROC}; mkdir {PROC}/nvidia; echo '{LOADED}' > {PROC}/nvidia/version"
        )
        yield line


@pytest.fixture
def line(hosts: Line) -> Line:
    hosts.inside(f"rm -f /etc/gpus/broken; {WELL}")
    return hosts


def checks(ran: Ran) -> dict[str, Any]:
    (host,) = ran.json["hosts"]
    return {row["check"]: row for row in host["checks"]}


def findings(ran: Ran) -> list[tuple[str, str]]:
    return [(found["rule"], found["error"]) for row in checks(ran).values() for found in row["findings"]]


def test_a_host_whose_gpus_are_well_is_clean(line: Line) -> None:
    ran = line.pdctl("doctor", "--json").must(0)
    found = checks(ran)
    assert found["GPUs"]["found"] == "2 x H100-SXM-80GB; engines use 0-1"
    assert found["NVLink"]["found"] == "1 pair NV18"
    assert found["fabric"]["found"].startswith("2 GPUs taken in, nvidia-fabricmanager ")
    assert found["driver"]["found"].startswith("loaded 580.95.05")
    assert {found[name]["status"] for name in ("memlock", "open files")} == {"ok"}
    assert {found[name]["status"] for name in ("IOMMU", "ACS")} == {"unknown"}  # a lab has no PCI devices


@pytest.mark.parametrize(
    ("cause", "rule", "says", "code"),
    [
        (
            f"printf '{GPU.format(0, 'Disabled')}' > /etc/gpus/gpus",
            "FACT004",
            "shows 1 GPU, the spec says 2",
            1,
        ),
        (
            "printf 'No devices were found\\n' > /etc/gpus/broken",
            "FACT004",
            "shows 0 GPUs, the spec says 2 and uses 0, 1: nvidia-smi: No devices were found",
            1,
        ),
        ("sed -i '1s/Disabled/Enabled/' /etc/gpus/gpus", "FACT006", "has GPU 0 cut into MIG instances", 2),
        ("sed -i s/NV18/SYS/g /etc/gpus/topo", "FACT030", "GPUs that NVLink does not join: 0-1 SYS", 2),
        ("sed -i '2s/26.*/<inactive>/' /etc/gpus/links", "FACT030", "NVLinks that are down: 1 of GPU 0", 2),
        (f"sed -i s/580.95.05/580.82.07/ {PROC}/nvidia/version", "FACT011", "runs driver 580.82.07", 2),
    ],
)
def test_what_is_broken_is_told_and_decides_the_exit_code(
    line: Line, cause: str, rule: str, says: str, code: int
) -> None:
    line.inside(cause)
    try:
        ran = line.pdctl("doctor", "--json").must(code)
    finally:
        line.inside(f"echo '{LOADED}' > {PROC}/nvidia/version")
    ((found, message),) = findings(ran)
    assert found == rule and says in message and message.startswith("h1 ")


def test_a_fabric_that_is_still_to_be_installed_is_shown_and_no_error(line: Line) -> None:
    line.inside("printf '0, In Progress, N/A\\n1, In Progress, N/A\\n' > /etc/gpus/fabric")
    found = checks(line.pdctl("doctor", "--json").must(0))
    assert found["fabric"]["found"].startswith("2 GPUs not taken in, nvidia-fabricmanager ")


def test_an_apply_that_would_start_engines_without_gpus_changes_nothing(line: Line) -> None:
    line.inside("printf 'No devices were found\\n' > /etc/gpus/broken")
    ran = line.pdctl("apply", "--yes", "--no-verify").must(1)
    assert "[FACT004]" in ran.err and "and nothing was changed" in ran.err
    line.inside("test ! -e /etc/pdctl -a ! -e /var/lib/pdctl")
