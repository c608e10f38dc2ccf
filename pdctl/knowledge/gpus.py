"""GPU models: memory, speed, and whether the board has NVSwitches (then Fabric Manager must run).

Memory is what `nvidia-smi` reports as memory.total, in MiB. Speed is of dense bfloat16 on tensor cores, in
TFLOP/s. Sources: NVIDIA's data sheets of the boards, and the driver's Fabric Manager guide for which HGX
boards carry NVSwitches.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownGpu:
    memory_mib: int
    nvswitch: bool
    bf16_tflops: float


GPUS: dict[str, KnownGpu] = {
    "H100-SXM-80GB": KnownGpu(81559, True, 989.4),
    "H200-SXM-141GB": KnownGpu(143771, True, 989.4),
    "A100-SXM-80GB": KnownGpu(81920, True, 312),
    "H100-PCIE-80GB": KnownGpu(81559, False, 756),
    "A40": KnownGpu(46068, False, 149.7),
    "L40S": KnownGpu(46068, False, 362),
}
