"""A tree like /sys in a folder: PCI devices under their bridges, RDMA devices with ports, NUMA nodes."""

from __future__ import annotations

from pathlib import Path

UP = "4: ACTIVE"


def device(root: Path, path: str, numa: int | None, cpus: str = "0-47") -> Path:
    """A PCI device at `path` below devices/; with `numa` None its file is missing, as without NUMA."""
    folder = root / "devices" / path
    folder.mkdir(parents=True, exist_ok=True)
    if numa is not None:
        (folder / "numa_node").write_text(f"{numa}\n")
    (folder / "local_cpulist").write_text(f"{cpus}\n")
    link = root / "bus/pci/devices" / folder.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return folder


def nic(root: Path, name: str, at: Path | None, *states: str, link: str = "InfiniBand") -> None:
    """An RDMA device with a port for each state; without a device it is one in software."""
    folder = root / "class/infiniband" / name
    folder.mkdir(parents=True)
    if at is not None:
        (folder / "device").symlink_to(at)
    for number, state in enumerate(states or (UP,), start=1):
        port = folder / "ports" / str(number)
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
        (port / "phys_state").write_text(f"{'5: LinkUp' if state == UP else '3: Disabled'}\n")
        (port / "link_layer").write_text(f"{link}\n")
        (port / "rate").write_text("400 Gb/sec (4X NDR)\n")


def nodes(root: Path, count: int) -> None:
    for number in range(count):
        (root / f"devices/system/node/node{number}").mkdir(parents=True)
    (root / "devices/system/node/online").write_text(f"0-{count - 1}\n")


def two_switches(root: Path) -> list[str]:
    """8 GPUs, 2 NICs: four and one on a switch of each socket. The GPUs' addresses as nvidia-smi has them."""
    nodes(root, 2)
    addresses = []
    for socket, bus in enumerate((0x16, 0x96)):
        switch = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
        cpus = ("0-47", "48-95")[socket]
        for number in range(4):
            address = f"{bus + 3 + number:02x}:00.0"
            device(root, f"{switch}/0000:{bus + 2:02x}:{number:02x}.0/0000:{address}", socket, cpus)
            addresses.append(f"00000000:{address.upper()}")
        at = device(root, f"{switch}/0000:{bus + 2:02x}:08.0/0000:{bus + 8:02x}:00.0", socket, cpus)
        nic(root, f"mlx5_{socket}", at)
    return addresses
