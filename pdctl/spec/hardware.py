"""The hardware of a host as the spec declares it: GPUs, RDMA NICs, and the network between hosts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pdctl.spec.serving import GpuIndex
from pdctl.spec.values import CpuList, Line, NicName, PciAddress, Section

# The kernel counts nodes of one machine up to this (CONFIG_NODES_SHIFT 10).
NumaNode = Annotated[int, Field(ge=0, le=1023)]


class Gpus(Section):
    """The GPUs of a host."""

    count: int = Field(ge=0, le=64, description="How many GPUs the host has.")
    model: Line | None = Field(None, description="Model as in the table of known GPUs, e.g. `H100-SXM-80GB`.")
    memory_gib: float | None = Field(
        None,
        gt=0,
        le=100000,
        description="Memory of one GPU in GiB, where pdctl does not know `model`; vLLM asks the GPU itself.",
    )
    pci: list[PciAddress] | None = Field(
        None,
        max_length=64,
        description="PCI address of each GPU, as `nvidia-smi` lists them; with those of NICs, vLLM gives each"
        " rank its own.",
    )


class Nic(Section):
    """One port of an RDMA NIC, and the GPUs that are near it. `validate --hosts` prints what is there."""

    name: NicName = Field(description="RDMA device as under /sys/class/infiniband, e.g. `mlx5_0`.")
    port: int = Field(1, ge=1, le=255, description="Its port, which UCX has after the name: `mlx5_0:1`.")
    gpus: list[GpuIndex] = Field(
        min_length=1,
        max_length=64,
        description="GPUs that have no nearer NIC, e.g. those on its PCIe switch; a GPU may be near several.",
    )
    numa: NumaNode | None = Field(
        None, description="NUMA node of these GPUs: their engines take its memory first."
    )
    cpus: CpuList | None = Field(
        None, description="CPUs of that node, e.g. `0-47,96-143`: the engines of these GPUs run on them."
    )
    pci: PciAddress | None = Field(
        None, description="Its PCI address; with `gpus.pci`, vLLM gives each rank its own NIC."
    )


class Network(Section):
    """What carries KV between this host and others."""

    gbit: float = Field(ge=0.1, le=100000, description="Speed of all its cards together, Gbit/s.")
    kind: Literal["ib", "roce", "ethernet"] = Field(
        "ethernet", description="`ib` and `roce` write into the other host's memory; `ethernet` is TCP."
    )
