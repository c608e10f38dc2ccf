"""Wheel, sdist, a wheel from the sdist and an editable install all hold what pdctl needs to run."""

from __future__ import annotations

import hashlib
import json
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pdctl import __version__
from tests.packaging.distributions import KINDS, LITTER, Built, Installed

Install = Callable[[str], Installed]
ASSETS = ("playbooks", "templates", "inventories")
# What the installed pdctl says about itself, from inside.
LOOK = """
import json, pathlib, pdctl
from pdctl.assets import assets
from pdctl.parts.own import PARTS, own_wheel
from pdctl.parts.lock import load_lock
print(json.dumps({
    "package": str(pathlib.Path(pdctl.__file__).parent),
    "assets": {kind: str(assets(kind)) for kind in ("playbooks", "templates", "inventories")},
    "parts": {name: own_wheel(name).file for name in PARTS},
    "locks": [len(load_lock(name, "3.11").entries) for name in ("proxy", "simulator", "engine-cpu", "uv")],
}))
"""
# Imports every module of pdctl while the names in argv[1] cannot be imported.
IMPORT_ALL = """
import importlib, pkgutil, sys
blocked = set(sys.argv[1].split(","))
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is not a dependency of pdctl", name=name)
sys.meta_path.insert(0, Blocker())
import pdctl
apart = ("pdctl.proxy", "pdctl.simulator", "pdctl.contrib", "pdctl.__main__")  # run on hosts, or run at once
names = [m.name for m in pkgutil.walk_packages(pdctl.__path__, "pdctl.", onerror=print)]
for name in names:
    if not name.startswith(apart):
        importlib.import_module(name)
print(len(names))
"""


def test_the_sdist_has_playbooks_templates_and_inventories_at_its_top(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = archive.getnames()
    inside = {name.split("/", 1)[1] for name in names if "/" in name}
    for kind in ASSETS:
        assert files_below(built, kind) <= inside
        assert not [name for name in inside if name.startswith(f"pdctl/{kind}")]
    assert {"Makefile", "README.md", "LICENSE", "pyproject.toml"} <= inside
    assert {"tests/packaging/test_packaging.py", "requirements/dev.lock"} <= inside


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_nothing_is_shipped_that_tools_left_in_the_tree(kind: str, built: Built) -> None:
    if kind == "wheel":
        with zipfile.ZipFile(built.wheel) as archive:
            names = archive.namelist()
    else:
        with tarfile.open(built.sdist) as archive:
            names = archive.getnames()
    assert all((built.tree / name).is_file() for name in LITTER)
    assert not [name for name in names if "__pycache__" in name or "litter" in name]


def test_a_wheel_from_the_sdist_is_the_wheel_from_the_tree(built: Built) -> None:
    assert contents(built.again) == contents(built.wheel)


def test_the_wheel_holds_every_module_and_asset_of_the_tree(built: Built) -> None:
    shipped = set(contents(built.wheel))
    for kind in ASSETS:
        assert {f"pdctl/{name}" for name in files_below(built, kind)} <= shipped
    assert files_below(built, "pdctl") <= shipped


@pytest.mark.parametrize("kind", KINDS)
def test_an_install_runs_from_another_folder(kind: str, install: Install) -> None:
    installed = install(kind)
    assert installed.run("pdctl", "--version") == f"pdctl {__version__}\n"
    look = json.loads(installed.run("python", "-c", LOOK))
    spec = Path(look["assets"]["inventories"]) / "hgx-h100-article" / "cluster.yaml"
    assert "is valid: 2 instances on 1 host" in installed.run("pdctl", "validate", str(spec))
    assert "is valid" in installed.run("python", "-m", "pdctl", "validate", str(spec))


@pytest.mark.parametrize("kind", KINDS)
def test_an_install_finds_its_own_playbooks_templates_parts_and_locks(
    kind: str, install: Install, built: Built
) -> None:
    installed = install(kind)
    look = json.loads(installed.run("python", "-c", LOOK))
    home = built.tree if kind == "editable" else installed.folder
    for name, folder in look["assets"].items():
        assert Path(folder).is_relative_to(home) and below(Path(folder)) == below(built.tree / name)
    assert Path(look["package"]).is_relative_to(home)
    # The digest of its sources is in the name: hosts get the same parts from every kind of install.
    assert look["parts"] == json.loads(install("editable").run("python", "-c", LOOK))["parts"]
    assert len(look["locks"]) == 4 and all(look["locks"])


def test_no_module_needs_a_package_that_pdctl_does_not_depend_on(install: Install) -> None:
    blocked = names_that_are_no_dependency()
    assert {"pytest", "hypothesis", "zmq", "msgpack", "jsonschema", "mypy"} <= blocked
    count = int(install("wheel").run("python", "-c", IMPORT_ALL, ",".join(blocked)))
    assert count > 100


def test_an_import_of_a_development_package_would_be_seen(install: Install) -> None:
    planted = IMPORT_ALL.replace("import pdctl\n", "import pdctl\nimport hypothesis\n")
    with pytest.raises(AssertionError, match="hypothesis is not a dependency of pdctl"):
        install("wheel").run("python", "-c", planted, ",".join(names_that_are_no_dependency()))


def names_that_are_no_dependency() -> set[str]:
    """Import names in this environment that only development packages provide."""
    allowed = closure("pdctl")
    return {
        name
        for name, owners in packages_distributions().items()
        if not allowed & {plain(owner) for owner in owners}
    }


@cache
def closure(name: str) -> frozenset[str]:
    """The distribution and all that it requires, without extras."""
    found = {plain(name)}
    queue = [name]
    while queue:
        for line in requires(queue.pop()):
            needed = Requirement(line)
            if plain(needed.name) not in found and (
                needed.marker is None or needed.marker.evaluate({"extra": ""})
            ):
                found.add(plain(needed.name))
                queue.append(needed.name)
    return frozenset(found)


def requires(name: str) -> list[str]:
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:  # needed on other platforms only
        return []


def plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def contents(wheel: Path) -> dict[str, str]:
    """Digest by name of everything but the wheel's own list."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if not name.endswith("/RECORD")
        }


def files_below(built: Built, kind: str) -> set[str]:
    return {f"{kind}/{name}" for name in below(built.tree / kind)}


def below(folder: Path) -> dict[str, str]:
    """Digest by path of the files in a folder, without litter."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc" and path.name != "litter"
    }
