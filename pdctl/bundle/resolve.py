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
from pdctl.knowledge.locks import lock_path
from pdctl.parts.lock import Entry
from pdctl.parts.recipes import RECIPES, Recipe


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
