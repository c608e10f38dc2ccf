"""Rules on what hosts say of themselves: `pdctl validate --hosts`."""

from __future__ import annotations

from pdctl.spec.rules.about import About, doubt, warning

FACTS = (
    About(
        "FACT001",
        "A host cannot be looked at",
        "It does not answer, does not let pdctl in, or cannot run its probe; an apply would leave it out.",
        "Follow the hint, e.g. correct `address` or `ssh`.",
    ),
    About(
        "FACT002",
        "A host runs another system than the spec says",
        "Environments are made for the Python of one system and would not start on another.",
        "Set `os` of the host to what it runs.",
    ),
    About(
        "FACT003",
        "A host lacks what pdctl builds on",
        "Wheels are locked for the system's own Python on x86-64, and services are systemd's.",
        "Use another host, or put its system in order.",
    ),
    About(
        "FACT004",
        "A host has fewer GPUs than the spec says",
        "Engines would be started on GPUs that are not there, or that the driver does not show.",
        "Correct `gpus`, or mend the driver.",
    ),
    warning(
        "FACT005",
        "A host has other GPUs than the spec says",
        "Memory, NVSwitch and thereby Fabric Manager are taken from the model that the spec names.",
        "Correct `gpus.model`.",
        "",
    ),
    warning(
        "FACT006",
        "A GPU has less memory than the spec counts on",
        "Weights, KV cache and transfer buffer were fitted to more.",
        "Correct `gpus`, or switch MIG off.",
        "",
    ),
    doubt(
        "FACT007",
        "A port of the cluster is taken by others",
        "The engine or the proxy could not open it and would not start. Whoever will be gone by then may"
        " suppress the rule.",
        "End that process, or choose another port.",
        "",
    ),
    warning(
        "FACT008",
        "A GPU of the cluster is used by others",
        "Their memory is missing for the KV cache, and vLLM refuses to start when too little is free.",
        "End that process.",
        "",
    ),
    doubt(
        "FACT009",
        "A disk has no room for environments and model",
        "The install would fail half-way. The need is an estimate: measured for the CPU engine, from the"
        " sizes of wheels and weights for GPUs.",
        "Make room, or mount a larger disk on /opt/pdctl.",
        "",
    ),
    warning(
        "FACT010",
        "A host's clock differs from the controller's",
        "Journals and records of several hosts cannot be read side by side, and certificates may seem"
        " expired.",
        "Run an NTP client, e.g. chrony.",
        "",
    ),
    warning(
        "FACT011",
        "A host runs another driver than the stack pins",
        "An apply installs the pinned one; until a reboot the loaded one stays, and Fabric Manager refuses"
        " it.",
        "Apply with `--allow-reboot`.",
        "",
    ),
    doubt(
        "FACT012",
        "A host's driver is too old for the wheels, and none is pinned",
        "CUDA would not start. NVIDIA's compatibility package helps on data-centre GPUs: then suppress the"
        " rule.",
        "Pin `stack.driver`, or install a newer driver.",
        "",
    ),
    doubt(
        "FACT013",
        "A host lacks a NIC that the spec declares",
        "UCX would find no transport and the engine would end. RDMA devices may be numbered anew after a card"
        " was added or a driver updated.",
        "Correct `nics` by what the error lists.",
        "",
    ),
    doubt(
        "FACT014",
        "A port that is to carry KV is not active",
        "UCX does not open it: the engine would end, or its KV would take a NIC that is left.",
        "Mend the link, or remove the port from `nics`.",
        "",
    ),
    warning(
        "FACT015",
        "A GPU has a nearer NIC than the spec says",
        "KV would cross a host bridge or the interconnect between sockets, at half the speed or less.",
        "List each GPU with its nearest NIC.",
        "",
    ),
    warning(
        "FACT016",
        "GPUs are near another NUMA node or other CPUs than the spec says",
        "Their engine would be kept on the CPUs and the memory of the wrong socket.",
        "Correct `numa` and `cpus`.",
        "",
    ),
    About(
        "FACT017",
        "A host has no such NUMA node",
        "systemd does not start a unit that names a node which does not exist (status 242/NUMA_POLICY).",
        "Correct `numa`, or leave it out.",
    ),
    About(
        "FACT018",
        "A device has another PCI address than the spec says",
        "vLLM ends when the map of GPUs and NICs lacks one of its own.",
        "Correct `pci`: addresses change when cards are moved.",
    ),
    warning(
        "FACT019",
        "A host has RDMA NICs and the spec does not say which GPUs are near them",
        "UCX then chooses by itself, and has been seen to send everything through the first (UCX issues 11259"
        " and 11680).",
        "Paste the `nics` that the hint prints.",
        "",
    ),
    warning(
        "FACT020",
        "A NIC that was chosen by hand is far from a GPU of the host",
        "KV would cross a host bridge or the interconnect between sockets, at half the speed or less.",
        "Remove the variable and declare `nics`.",
        "",
    ),
    warning(
        "FACT021",
        "A host's NICs are on another kind of network than the spec says",
        "InfiniBand and RoCE need different settings of switches, and transfers are judged by the kind.",
        "Correct `network.kind`.",
        "",
    ),
    doubt(
        "FACT022",
        "The kernel that boots next has no driver",
        "An upgrade has installed a newer kernel, and nothing was built for it: after the next reboot the"
        " GPUs are gone. The running kernel says nothing about that. What boots is read from GRUB's default"
        " and /boot; where the host boots otherwise, suppress the rule.",
        "Install that kernel's headers and have dkms build the modules, before any reboot.",
        "",
    ),
    warning(
        "FACT023",
        "A host's driver was changed under the loaded module",
        "The module in memory stays until a reboot; NVML and CUDA refuse it as soon as the libraries on disk"
        " are of another version, so that no new process starts, while running ones go on.",
        "Apply where user space was moved away from the pin; else reboot the host once its engines may stop.",
        "",
    ),
    doubt(
        "FACT024",
        "Secure Boot would refuse the driver",
        "Modules that dkms builds are signed with a key of the machine's own. Until somebody has enrolled it"
        " at the console, the kernel answers `Key was rejected by service`, after an install that seemed to"
        " go well. An apply leaves such a host out before it changes anything. Whoever signs modules in"
        " another way may suppress the rule.",
        "Install the distribution's signed modules (`linux-modules-nvidia-...`), or enrol the key.",
        "",
    ),
)
