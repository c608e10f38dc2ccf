"""Distributions of pdctl, made from a copy of the tree, and environments that hold one of them."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = ("wheel", "wheel from the sdist", "editable")
# What tools leave in a working tree; none of it may be shipped.
LITTER = (
    "pdctl/__pycache__/litter.pyc",
    "pdctl/proxy/__pycache__/litter.pyc",
    "playbooks/__pycache__/litter.pyc",
    "playbooks/.ruff_cache/litter",
)


@dataclass(frozen=True)
class Built:
    """Paths of the distributions; `again` is the wheel made from the sdist."""

    tree: Path
    sdist: Path
    wheel: Path
    again: Path


@dataclass(frozen=True)
class Installed:
    """A virtual environment with pdctl in it."""

    folder: Path
    elsewhere: Path  # where commands run: neither the checkout nor the environment

    def run(self, *words: str) -> str:
        """What a program of the environment prints; it sees no PYTHONPATH and no checkout."""
        done = subprocess.run(
            [self.folder / "bin" / words[0], *words[1:]],
            capture_output=True,
            text=True,
            cwd=self.elsewhere,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.elsewhere)},
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def build(folder: Path) -> Built:
    tree = _copy_of_the_tree(folder / "tree")
    first = _build(tree, folder / "first", "--sdist", "--wheel")
    second = _build(tree, folder / "second")  # without options: an sdist, then a wheel from it
    return Built(tree, _only(first, "*.tar.gz"), _only(first, "*.whl"), _only(second, "*.whl"))


def install(built: Built, kind: str, folder: Path) -> Installed:
    sources = {
        "wheel": [str(built.wheel)],
        "wheel from the sdist": [str(built.again)],
        "editable": ["--no-build-isolation", "-e", str(built.tree)],
    }
    environment = _fresh_venv(folder / "venv")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(environment)]
    _run([*pip, "install", "-q", "--no-deps", "--no-index", "--no-compile", *sources[kind]])
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    return Installed(environment, elsewhere)


def _copy_of_the_tree(target: Path) -> Path:
    """The sources without git, environments and caches; then litter of our own, which is always there."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        here = Path(folder)
        hidden = {n for n in names if n.startswith(".") and (here / n).is_dir()}
        return hidden | {"__pycache__", "dist", "build"}

    shutil.copytree(ROOT, target, ignore=left_out)
    for name in LITTER:
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"litter")
    return target


def _build(tree: Path, out: Path, *options: str) -> Path:
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *options, str(tree)])
    return out


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _only(folder: Path, pattern: str) -> Path:
    [path] = folder.glob(pattern)
    return path


def _fresh_venv(folder: Path) -> Path:
    """An environment that borrows the dependencies of ours; its own packages come first."""
    venv.create(folder, symlinks=True)
    own = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # A folder named in a .pth file is searched, but .pth files inside it are not read: the checkout that
    # our environment has as an editable install stays out of sight.
    (own / "borrowed.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return folder
