"""A repository of packages with the vendors' names, versions and dependencies, and nothing inside."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PINNED, NEWER = "580.95.05-0ubuntu0.22.04.2", "580.159.03-0ubuntu0.22.04.1"
# What NVIDIA's own repository has of the same release, and apt takes for newer.
NVIDIAS = "580.95.05-1"
DRIVER = "nvidia-driver-580-server-open"
# What the driver's metapackage of Ubuntu needs at its own version.
PARTS = (
    "libnvidia-compute-580-server",
    "libnvidia-cfg1-580-server",
    "nvidia-utils-580-server",
    "nvidia-kernel-common-580-server",
    "nvidia-dkms-580-server-open",
)

# What dkms does for each kernel whose headers are there. depmod lists the module, modinfo tells its version.
DKMS = """#!/bin/sh
for folder in /lib/modules/*/; do
    [ -e "$folder/build" ] || continue
    echo updates/dkms/nvidia.ko: > "$folder/modules.dep"
    echo {version} > "$folder/nvidia.version"
done
"""


def vendor_repository(folder: Path, *versions: str) -> Path:
    """A flat repository in `folder`; hosts use it as `deb [trusted=yes] file:... ./`."""
    return repository(
        folder,
        [make_deb(folder, *row, files=_scripts(*row[:2])) for row in _packages(versions or (PINNED, NEWER))],
    )


def _scripts(name: str, version: str) -> dict[str, bytes]:
    text = DKMS.format(version=version.split("-")[0])
    return {"DEBIAN/postinst": text.encode()} if name.startswith("nvidia-dkms-") else {}


def repository(folder: Path, debs: Iterable[Path]) -> Path:
    (folder / "Packages").write_text("\n".join(map(_stanza, debs)))
    return folder


def _packages(versions: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Name, version, dependencies."""
    for version in versions:
        yield DRIVER, version, ", ".join(f"{part} (= {version})" for part in PARTS)
        for part in PARTS:
            yield part, version, ""
        yield "nvidia-fabricmanager-580", version, ""
        fabric = f"nvidia-fabricmanager-580 (= {version}), {DRIVER} (= {version})"
        yield "cuda-drivers-fabricmanager-580", version, fabric
    # Names that look like the driver's, and versions of their own.
    yield "nvidia-container-toolkit", "1.17.8-1", ""
    yield "nvidia-settings", "510.47.03-0ubuntu1", ""
    yield "nvlsm", "2025.06.11-1", ""
    yield "nvlsm", "2025.10.14-1", ""
    yield "cuda-nvcc-13-0", "13.0.88-1", ""
    yield "cuda-cudart-dev-13-0", "13.0.88-1", ""
    yield "doca-ofed", "3.0.0-058218", ""
    yield "linux-headers-amd64", "6.1.158-1", ""
    yield "linux-headers-generic", "5.15.0.160.150", ""


def make_deb(
    folder: Path, name: str, version: str, depends: str = "", files: Mapping[str, bytes] | None = None
) -> Path:
    """`files` by their paths; those in DEBIAN are dpkg's."""
    tree = folder / f"{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    for path, data in (files or {}).items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(data)
        (tree / path).chmod(0o755)
    fields = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@example.org>\n"
    needs = f"Depends: {depends}\n" if depends else ""
    (tree / "DEBIAN/control").write_text(f"{fields}{needs}Description: stand-in for {name}\n")
    deb = folder / f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, deb], check=True, capture_output=True)
    shutil.rmtree(tree)
    return deb


def _stanza(deb: Path) -> str:
    shown = subprocess.run(["dpkg-deb", "--field", deb], check=True, capture_output=True, text=True)
    digest = hashlib.sha256(deb.read_bytes()).hexdigest()
    return f"{shown.stdout}Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"
