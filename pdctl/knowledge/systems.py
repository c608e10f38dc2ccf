"""Operating systems that hosts may run, and the Python that each of them brings."""

from __future__ import annotations

from collections.abc import Mapping

# ID and VERSION_ID of /etc/os-release -> Python of the distribution's own package `python3`. Runtimes from
# the bundle use it, since a host downloads no Python for them.
SYSTEM_PYTHON: Mapping[str, str] = {
    "debian-12": "3.11",  # bookworm: python3 3.11.2-1
    "ubuntu-22.04": "3.10",  # jammy: python3 3.10.6-1~22.04
    "ubuntu-24.04": "3.12",  # noble: python3 3.12.3-0ubuntu1
}

# What a host runs when the spec does not say, by engine and device: the article's hosts, and the lab's.
DEFAULT_SYSTEM: Mapping[tuple[str, str], str] = {
    ("vllm", "cuda"): "ubuntu-22.04",
    ("vllm", "cpu"): "debian-12",
    ("simulator", "cuda"): "debian-12",
    ("simulator", "cpu"): "debian-12",
}

# The only system whose Python the CPU engine's wheels are locked for.
CPU_ENGINE_SYSTEM = "debian-12"


def system_name(os_id: str, version: str) -> str:
    """`ubuntu` and `22.04`, as a host says them, -> the name in the spec."""
    return f"{os_id}-{version}"
