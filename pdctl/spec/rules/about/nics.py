"""Rules on RDMA NICs and the GPUs near them."""

from __future__ import annotations

from pdctl.spec.rules.about import About, doubt, warning


def _nics(rows: str, more: str = "") -> str:
    return f"hosts: [{{name: gpu01, address: 10.0.0.11, gpus: 8, nics: [{rows}]{more}}}]\n"


def _prefillers(*variables: str) -> str:
    env = ", ".join(('UCX_TLS: "rc,cuda_copy"', *variables))
    return f"serving: {{prefillers: {{env: {{{env}}}}}, decoders: {{}}}}\n"


TWO = _nics("{name: mlx5_0, gpus: [0, 1, 2, 3], numa: 0}, {name: mlx5_1, gpus: [4, 5, 6, 7], numa: 1}")
NICS = (
    About(
        "NIC001",
        "A port of a NIC is declared twice",
        "One entry holds all GPUs near it and their NUMA node; two could contradict each other.",
        "Keep one entry for each port.",
        _nics("{name: mlx5_0, gpus: [0, 1]}, {name: mlx5_0, gpus: [2, 3]}"),
    ),
    About(
        "NIC002",
        "A NIC is near a GPU that does not exist",
        "Indexes count from 0 in PCI order, up to one less than the host's `gpus`.",
        "Use indexes that exist.",
        _nics("{name: mlx5_0, gpus: [7, 8]}"),
    ),
    About(
        "NIC003",
        "A NIC lists a GPU twice",
        "One of the two was meant to be another GPU.",
        "List each GPU once.",
        _nics("{name: mlx5_0, gpus: [0, 0]}"),
    ),
    warning(
        "NIC004",
        "A GPU of an instance is near none of the declared NICs",
        "pdctl then sets neither NICs nor NUMA nodes for the instance, and UCX may take a NIC on the other"
        " socket.",
        "Add the GPU to the NIC that is nearest to it.",
        _nics("{name: mlx5_1, gpus: [4, 5, 6, 7]}") + _prefillers(),
    ),
    About(
        "NIC005",
        "PCI addresses contradict each other",
        "A device has one address and an address one device. vLLM looks a worker's NIC up by them and ends"
        " when one does not exist.",
        "Correct `pci`.",
        _nics(
            '{name: mlx5_0, gpus: [0], pci: "0000:1b:00.0"}, {name: mlx5_1, gpus: [1], pci: "0000:1B:00.0"}'
        ),
    ),
    warning(
        "NIC006",
        "A host with RDMA NICs is said to have a TCP network",
        "`network.kind` is `ethernet` where nothing else is said, and transfers are then judged as TCP's.",
        "Set `network.kind` to `ib` or `roce`.",
        _nics("{name: mlx5_0, gpus: [0, 1, 2, 3, 4, 5, 6, 7]}", ", network: {gbit: 400}"),
    ),
    warning(
        "NIC007",
        "A NIC that was chosen by hand is far from a GPU",
        "KV then crosses the interconnect between sockets, at half the speed or less (UCX issue 11259).",
        "Remove the variable: pdctl gives each instance the NICs near its GPUs.",
        TWO + _prefillers('UCX_NET_DEVICES: "mlx5_1:1"'),
    ),
    doubt(
        "NIC008",
        "A NIC that was chosen by hand is not declared",
        "UCX takes no other in its place: NIXL finds no transport and the engine ends, a minute and a half"
        " after its start. Up to version 1.20 a name without its port is unknown, too.",
        "Use a declared name with its port, or declare the NIC.",
        TWO + _prefillers('UCX_NET_DEVICES: "mlx5_2:1"'),
    ),
)
