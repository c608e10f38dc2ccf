"""Rules on what a host gives engines on GPUs beside its driver: `pdctl doctor` and `validate --hosts`."""

from __future__ import annotations

from pdctl.spec.rules.about import doubt, warning

READY = (
    warning(
        "FACT025",
        "An IOMMU translates what GPUs and NICs access",
        "Transfers between them take the way over the CPU's IOMMU, at a part of the speed, and may fail. On"
        " bare metal NVIDIA advises to pass accesses on.",
        "Boot with `iommu=pt`, or switch the IOMMU off.",
        "",
    ),
    warning(
        "FACT026",
        "PCIe switches send traffic between GPUs and NICs up to the CPU",
        "Access control services redirect what one device writes to another, so that the switch between them"
        " saves nothing. Virtual machines need them: there, suppress the rule.",
        "Switch the redirect off on the bridges that the warning names, at every boot.",
        "",
    ),
    warning(
        "FACT027",
        "NICs cannot reach the memory of GPUs",
        "KV would be copied through the memory of the CPU, or sent over TCP.",
        "Load nvidia-peermem, or use NVIDIA's open kernel modules, which offer dma-buf.",
        "",
    ),
    doubt(
        "FACT028",
        "A service cannot lock the memory that engines need",
        "UCX registers buffers with GPUs and NICs, which locks them; systemd gives no more than it may take"
        " itself, whatever the unit asks for.",
        "Raise the limit of the machine's or container's own systemd.",
        "",
    ),
    doubt(
        "FACT029",
        "A service cannot open as many files as engines need",
        "An engine opens a file for every shard, socket and peer.",
        "Raise `fs.nr_open`, or the limit of the container.",
        "",
    ),
    warning(
        "FACT030",
        "GPUs of a board with NVSwitches are not joined by NVLink",
        "Tensor parallelism and KV between GPUs of one host would go over PCIe, at a fraction of its speed."
        " It is mostly the fabric that is not up, or a GPU that has lost links.",
        "Look at Fabric Manager, then at the GPU's links.",
        "",
    ),
    doubt(
        "FACT031",
        "The NVLink fabric has not taken in a GPU",
        "CUDA starts nothing on it before (error 802, system not yet initialized), and an apply starts no"
        " engine there.",
        "Read the journal of Fabric Manager.",
        "",
    ),
    warning(
        "FACT032",
        "A host cannot look up a name that it needs",
        "Engines that shall load a model by its name ask Hugging Face for it as they start, and end where"
        " they get no answer and have not loaded it before.",
        "Mend the name servers, name a proxy (`env`: HTTPS_PROXY), or set `offline` or `model.path` where the"
        " weights are there.",
        "",
    ),
    warning(
        "FACT033",
        "Nothing keeps a host's clock in time",
        "It may be right today. Journals and benchmarks of several hosts are read side by side, and"
        " certificates and signatures of package lists count from it.",
        "Install chrony, or switch on systemd-timesyncd.",
        "",
    ),
)
