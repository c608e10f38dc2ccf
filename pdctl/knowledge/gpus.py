"""GPU models: memory, and whether the board has NVSwitches (then Fabric Manager must run).

Memory is what `nvidia-smi` reports as memory.total, in MiB. Sources: NVIDIA's data sheets of the boards,
and the driver's Fabric Manager guide for which HGX boards carry NVSwitches.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownGpu:
    memory_mib: int
    nvswitch: bool


GPUS: dict[str, KnownGpu] = {
    "H100-SXM-80GB": KnownGpu(81559, True),
    "H200-SXM-141GB": KnownGpu(143771, True),
    "A100-SXM-80GB": KnownGpu(81920, True),
    "H100-PCIE-80GB": KnownGpu(81559, False),
    "A40": KnownGpu(46068, False),
    "L40S": KnownGpu(46068, False),
}
