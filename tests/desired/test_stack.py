"""The packages below the engines: by board and pin, and what keeps them in their place."""

from __future__ import annotations

import fnmatch
import re

import pytest

from pdctl.desired import desire
from pdctl.knowledge.drivers import (
    FAMILY,
    NOT_OF_THE_FAMILY,
    branch,
    cuda_packages,
    driver_package,
    fabric_manager_package,
    rivals,
)
from pdctl.knowledge.gpus import GPUS
from pdctl.spec.load import inspect
from pdctl.state import File, Package, Resource, Unit
from pdctl.topology.judge import judge
from tests.spec.breaking import sound_but_for

NOUVEAU = "/etc/modprobe.d/pdctl-chat-nouveau.conf"
UNATTENDED = "/etc/apt/apt.conf.d/52pdctl-chat-unattended-upgrades"
PREFERENCES = "/etc/apt/preferences.d/pdctl-chat"


def wanted(model: str, stack: str = "article-2025", os: str = "ubuntu-22.04") -> list[Resource]:
    spec = (
        f"cluster: chat\nhosts: [{{name: gpu01, address: 10.0.0.11, os: {os},"
        f" gpus: {{count: 8, model: {model}}}}}]\nmodel: {{id: openai/gpt-oss-20b}}\nstack: {stack}\n"
    )
    return list(desire(judge(inspect(sound_but_for(spec), "c")).sound()).values())


def packages(rows: list[Resource]) -> dict[str, Package]:
    return {row.name: row for row in rows if isinstance(row, Package)}


def text(rows: list[Resource], path: str) -> str:
    (found,) = [row.content for row in rows if isinstance(row, File) and row.path == path]
    return (found or b"").decode()


@pytest.mark.parametrize(
    ("model", "fabric", "subnet"),
    [
        ("B200-SXM-180GB", True, True),
        ("B300-SXM-270GB", True, True),
        ("H100-SXM-80GB", True, False),
        ("H200-SXM-141GB", True, False),
        ("A100-SXM-80GB", True, False),
        ("H100-PCIE-80GB", False, False),
        ("L40S", False, False),
    ],
)
def test_fabric_manager_and_subnet_manager_are_where_the_board_needs_them(
    model: str, fabric: bool, subnet: bool
) -> None:
    found = packages(wanted(model))
    assert ("cuda-drivers-fabricmanager-580" in found, "nvlsm" in found) == (fabric, subnet)


@pytest.mark.parametrize("model", sorted(GPUS))
def test_engines_wait_for_the_fabric_where_it_registers_gpus(model: str) -> None:
    engines = [row for row in wanted(model) if isinstance(row, Unit) and row.role != "proxy"]
    proxies = [row for row in wanted(model) if isinstance(row, Unit) and row.role == "proxy"]
    assert {unit.fabric_s > 0 for unit in engines} == {GPUS[model].registers}
    assert [unit.fabric_s for unit in proxies] == [0]


@pytest.mark.parametrize(
    ("version", "others"),
    [
        ("580.95.05-0ubuntu0.22.04.2", ("l=NVIDIA CUDA",)),
        ("580.95.05-1", ("o=Ubuntu", "o=Debian")),
        ("580.95.05-0ubuntu1", ()),  # both have such
        ("580.95.05", ()),
    ],
)
def test_another_vendors_build_of_the_same_version_is_pinned_down(
    version: str, others: tuple[str, ...]
) -> None:
    """Before the pin to the upstream version, which both have: the first that fits counts."""
    assert rivals(version) == others
    stack = f"{{base: article-2025, driver: {version}, fabricmanager: {version}}}"
    preferences = text(wanted("H100-SXM-80GB", stack), PREFERENCES)
    assert preferences.count("Pin: release ") == len(others)
    for other in others:
        down = preferences.index(f"Pin: release {other}\nPin-Priority: 100\n")
        assert down < preferences.index("Pin: version 580.95.05-*\nPin-Priority: 1001\n")


def test_the_subnet_manager_goes_by_its_own_pin() -> None:
    free = packages(wanted("B200-SXM-180GB"))["nvlsm"]
    assert (free.version, free.hold) == (None, True)
    pinned = wanted("B200-SXM-180GB", "{base: article-2025, nvlsm: 2025.10.14-1}")
    assert packages(pinned)["nvlsm"].version == "2025.10.14-1"
    assert "Package: nvlsm\nPin: version 2025.10.14-1\n" in text(pinned, PREFERENCES)


def test_other_pins_are_of_other_packages() -> None:
    stack = (
        "{vllm: '0.11.0', driver: 570.195.03-0ubuntu1, fabricmanager: 570.195.03-0ubuntu2, cuda: 12.8.93-1}"
    )
    found = packages(wanted("H100-SXM-80GB", stack))
    assert {"nvidia-driver-570-server-open", "cuda-drivers-fabricmanager-570"} <= found.keys()
    assert {"cuda-nvcc-12-8", "cuda-cudart-dev-12-8"} <= found.keys()


@pytest.mark.parametrize(
    ("version", "package"),
    [
        ("580.95.05-0ubuntu0.22.04.2", "cuda-drivers-fabricmanager-580"),
        ("580.95.05-1", "cuda-drivers-fabricmanager-580"),
        ("590.48.01-0ubuntu0.24.04.1", "cuda-drivers-fabricmanager-590"),
        ("590.48.01-1", "nvidia-fabricmanager"),
    ],
)
def test_fabric_managers_package_follows_its_version(version: str, package: str) -> None:
    assert fabric_manager_package(version) == package


def test_names_follow_from_versions() -> None:
    assert branch("1:570.195.03-1") == 570 and driver_package("570.1") == "nvidia-driver-570-server-open"
    assert cuda_packages("13.0.88-1") == ("cuda-nvcc-13-0", "cuda-cudart-dev-13-0")
    assert cuda_packages("13") == ("cuda-nvcc-13-0", "cuda-cudart-dev-13-0")


@pytest.mark.parametrize(
    ("os", "stack", "headers"),
    [
        ("ubuntu-22.04", "article-2025", "linux-headers-generic"),
        ("debian-12", "article-2025", "linux-headers-amd64"),
        (
            "ubuntu-22.04",
            "{base: article-2025, kernel_headers: linux-headers-generic-hwe-22.04}",
            "linux-headers-generic-hwe-22.04",
        ),
    ],
)
def test_headers_of_kernels_to_come_are_wanted_with_a_driver(os: str, stack: str, headers: str) -> None:
    found = packages(wanted("H100-SXM-80GB", stack, os))[headers]
    assert (found.version, found.hold) == (None, False)


def test_all_that_belongs_to_the_driver_is_pinned_and_kept_from_upgrades() -> None:
    rows = wanted("H100-SXM-80GB")
    preferences = text(rows, PREFERENCES)
    assert "Package: nvidia-* libnvidia-* cuda-drivers* " in preferences
    assert "Pin: version 580.95.05-*\nPin-Priority: 1001\n" in preferences
    patterns = re.findall(r'^  "(.*)";$', text(rows, UNATTENDED), re.MULTILINE)
    held = [package.name for package in packages(rows).values() if package.hold]
    names = [*held, "libnvidia-compute-580-server", "nvidia-fabricmanager-580", "nvidia-utils-580-server"]
    assert all(any(re.match(pattern, name) for pattern in patterns) for name in names)
    assert not [name for name in ("bash", "linux-image-generic", "doca-ofed-x") if any(
        re.match(pattern, name) for pattern in patterns
    )]  # fmt: skip


def test_what_goes_by_versions_of_its_own_is_no_member() -> None:
    strangers = ("nvidia-settings", "nvidia-container-toolkit", "libnvidia-container1", "nvidia-prime")
    for name in strangers:
        assert any(fnmatch.fnmatchcase(name, pattern) for pattern in FAMILY)
        assert any(fnmatch.fnmatchcase(name, pattern) for pattern in NOT_OF_THE_FAMILY)


def test_nouveau_is_forbidden_where_a_driver_is_pinned_and_only_there() -> None:
    lines = text(wanted("H100-SXM-80GB"), NOUVEAU).splitlines()
    assert lines[1:] == ["blacklist nouveau", "options nouveau modeset=0"]
    without = wanted("H100-SXM-80GB", "{vllm: '0.32.0'}")
    assert not packages(without) and not [row for row in without if "/etc/apt" in row.id or NOUVEAU in row.id]


@pytest.mark.parametrize(
    ("os", "modules"), [("ubuntu-24.04", {"linux-modules-6.8.0-60-generic"}), ("debian-12", set[str]())]
)
def test_a_pinned_kernel_is_held_and_no_other_one_comes(os: str, modules: set[str]) -> None:
    rows = wanted("H100-SXM-80GB", "{base: article-2025, kernel: 6.8.0-60-generic}", os)
    found = {name: row for name, row in packages(rows).items() if name.startswith("linux-")}
    image = {"linux-image-6.8.0-60-generic", "linux-headers-6.8.0-60-generic"}
    assert found.keys() == image | modules and all(row.hold for row in found.values())
    unattended = text(rows, UNATTENDED)
    for name in ("linux-image-generic", "linux-headers-generic", "linux-generic", "linux-modules-6.8.0-64"):
        assert any(re.match(one, name) for one in re.findall(r'"(\^[^"]+)";', unattended)), name
    plain = text(wanted("H100-SXM-80GB"), UNATTENDED)
    assert "linux-" not in plain
