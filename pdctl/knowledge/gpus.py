"""GPU models: memory, speed, and whether the board has NVSwitches (then Fabric Manager must run).

Memory is what `nvidia-smi` reports as memory.total, in MiB. Speed is of dense bfloat16 on tensor cores, in
TFLOP/s. Sources: NVIDIA's data sheets of the boards (HGX B200 and B300: 36 PFLOP/s of 8 GPUs, with sparsity),
and the driver's Fabric Manager guide for which HGX boards carry NVSwitches, which of those register GPUs with
the fabric (third generation and later), and which need the NVLink subnet manager (fourth generation).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownGpu:
    """`registers`: CUDA starts only once the fabric has taken the GPU; `subnet_manager`: Fabric Manager works
    only with NVLSM beside it."""

    memory_mib: int
    nvswitch: bool
    bf16_tflops: float
    registers: bool = False
    subnet_manager: bool = False


GPUS: dict[str, KnownGpu] = {
    "H100-SXM-80GB": KnownGpu(81559, True, 989.4, registers=True),
    "H200-SXM-141GB": KnownGpu(143771, True, 989.4, registers=True),
    "B200-SXM-180GB": KnownGpu(183359, True, 2250, registers=True, subnet_manager=True),
    "B300-SXM-270GB": KnownGpu(275040, True, 2250, registers=True, subnet_manager=True),
    "A100-SXM-80GB": KnownGpu(81920, True, 312),
    "H100-PCIE-80GB": KnownGpu(81559, False, 756),
    "A40": KnownGpu(46068, False, 149.7),
    "L40S": KnownGpu(46068, False, 362),
}

# Seconds that the fabric may take to register a board's GPUs. NVIDIA gives no bound; a B200 board was done
# some ten seconds after Fabric Manager had started (bottlerocket-kernel-kit pull request 142).
FABRIC_S = 300
