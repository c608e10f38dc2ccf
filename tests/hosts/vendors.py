"""A repository of packages with the vendors' names, versions and dependencies, and nothing inside."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

PINNED, NEWER = "580.95.05-0ubuntu0.22.04.2", "580.159.03-0ubuntu0.22.04.1"
DRIVER = "nvidia-driver-580-server-open"
# What the driver's metapackage of Ubuntu needs at its own version.
PARTS = (
    "libnvidia-compute-580-server",
    "libnvidia-cfg1-580-server",
    "nvidia-utils-580-server",
    "nvidia-kernel-common-580-server",
    "nvidia-dkms-580-server-open",
)


def vendor_repository(folder: Path) -> Path:
    """A flat repository in `folder`; hosts use it as `deb [trusted=yes] file:... ./`."""
    debs = [_deb(folder, *row) for row in _packages()]
    (folder / "Packages").write_text("\n".join(map(_stanza, debs)))
    return folder


def _packages() -> Iterator[tuple[str, str, str]]:
    """Name, version, dependencies."""
    for version in (PINNED, NEWER):
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


def _deb(folder: Path, name: str, version: str, depends: str) -> Path:
    tree = folder / f"{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
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
