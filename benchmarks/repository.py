"""Table of packages -> a signed apt repository of stubs with vendor names and versions."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# A command of each Debian package that is needed here.
TOOLS = {"apt-utils": "apt-ftparchive", "gnupg": "gpg", "dpkg": "dpkg-deb"}
KEY = "vendor.gpg"
DRIVER = "580.95.05-0ubuntu0.22.04.2"
EIGHT = "for i in 0 1 2 3 4 5 6 7; do"

NVIDIA_SMI = f"""#!/bin/sh
{EIGHT} echo "NVIDIA H100 80GB HBM3, {DRIVER.split("-")[0]}"; done
"""
FABRIC_MANAGER = """[Unit]
Description=NVIDIA fabric manager (stub)
[Service]
ExecStart=/usr/bin/nv-fabricmanager
Restart=on-failure
[Install]
WantedBy=multi-user.target
"""
IBDEV2NETDEV = f"""#!/bin/sh
{EIGHT} echo "mlx5_$i port 1 ==> ib$i (Up)"; done
"""


@dataclass(frozen=True)
class Stub:
    """A package: what it is called, what it needs, and its files by absolute path."""

    name: str
    version: str
    depends: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


# A lab "has" the kernel module X if a package ships /usr/lib/pdctl-lab/modules/X.
STUBS = (
    Stub(
        "nvidia-driver-580-server-open",
        DRIVER,
        files={
            "/usr/bin/nvidia-smi": NVIDIA_SMI,
            "/usr/lib/pdctl-lab/modules/nvidia": "",
            "/usr/lib/pdctl-lab/modules/nvidia_peermem": "",
        },
    ),
    Stub(
        "nvidia-fabricmanager-580",
        DRIVER,
        files={
            "/usr/bin/nv-fabricmanager": "#!/bin/sh\nexec sleep infinity\n",
            "/lib/systemd/system/nvidia-fabricmanager.service": FABRIC_MANAGER,
        },
    ),
    Stub("cuda-drivers-fabricmanager-580", DRIVER, f"nvidia-fabricmanager-580 (= {DRIVER})"),
    Stub("cuda-toolkit-13-0", "13.0.88-1", files={"/usr/local/cuda-13.0/version.txt": "13.0.88\n"}),
    Stub("cuda-nvcc-13-0", "13.0.88-1"),
    Stub("cuda-cudart-dev-13-0", "13.0.88-1"),
    Stub("linux-headers-amd64", "6.1.158-1"),
    Stub("doca-ofed", "3.0.0-058218", files={"/usr/bin/ibdev2netdev": IBDEV2NETDEV}),
    Stub(
        "ucx", "1.19.0-1.2510", files={"/usr/bin/ucx_info": "#!/bin/sh\necho '# Library version: 1.19.0'\n"}
    ),
)


def make_repository(out: Path) -> Path:
    """Write the repository into `out`; gives back the key that signed it.

    Raises SystemExit naming the Debian packages that are missing on this machine.
    """
    require_tools()
    index = out / "dists/stub/main/binary-amd64"
    for folder in (out / "pool", index):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for stub in STUBS:
            _deb(stub, Path(scratch, stub.name), out / "pool")
        packages = _run("apt-ftparchive", "packages", "pool", cwd=out)
        (index / "Packages").write_bytes(packages)
        (index / "Packages.gz").write_bytes(gzip.compress(packages, mtime=0))
        (out / "dists/stub/Release").write_bytes(_release(out))
        return _signed(out, Path(scratch, "gnupg"))


def require_tools() -> None:
    missing = [package for package, tool in TOOLS.items() if not shutil.which(tool)]
    if missing:
        sys.exit(
            f"the stub package repository needs {', '.join(missing)}: run `tools/apt {' '.join(missing)}`"
        )


def _deb(stub: Stub, tree: Path, pool: Path) -> None:
    control = {
        "Package": stub.name,
        "Version": stub.version,
        "Architecture": "amd64",
        "Maintainer": "Benchmark <benchmark@example.invalid>",
        "Depends": stub.depends,
        "Description": f"stub of {stub.name}",
    }
    lines = [f"{name}: {value}\n" for name, value in control.items() if value]
    for path, text in {"/DEBIAN/control": "".join(lines), **stub.files}.items():
        target = tree / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755 if text.startswith("#!") else 0o644)
    for folder in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    file = pool / f"{stub.name}_{stub.version}_amd64.deb"
    _run("dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree), str(file))


def _release(out: Path) -> bytes:
    fields = {"Suite": "stub", "Codename": "stub", "Architectures": "amd64", "Components": "main"}
    options = [
        word for name, value in fields.items() for word in ("-o", f"APT::FTPArchive::Release::{name}={value}")
    ]
    return _run("apt-ftparchive", *options, "release", "dists/stub", cwd=out)


def _signed(out: Path, home: Path) -> Path:
    """Sign with a key made for this repository alone."""
    home.mkdir(mode=0o700)
    gpg = ("gpg", "--homedir", str(home), "--batch", "--yes", "--quiet")
    try:
        _run(*gpg, "--passphrase", "", "--quick-generate-key", "Stub repository", "ed25519", "sign", "never")
        release = out / "dists/stub/Release"
        _run(*gpg, "--clearsign", "-o", str(release.with_name("InRelease")), str(release))
        _run(*gpg, "--export", "-o", str(out / KEY))
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
    return out / KEY


def _run(*argv: str, cwd: Path | None = None) -> bytes:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"`{' '.join(argv[:2])}` failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


if __name__ == "__main__":
    print(make_repository(Path(sys.argv[1])))
