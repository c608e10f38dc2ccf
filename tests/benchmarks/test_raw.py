"""The plain commands that a first install is measured against: a shell takes them, and all is in them."""

from __future__ import annotations

import subprocess

import pytest

from benchmarks.raw import install_script, undo_script
from pdctl.desired import desire
from pdctl.spec.load import load
from pdctl.state import File, Package, Resource, Unit, Venv
from pdctl.topology import resolve
from tests.examples import spec_path


@pytest.fixture(params=["lab-simulator", "hgx-h100-article"])
def state(request: pytest.FixtureRequest) -> list[Resource]:
    desired = desire(resolve(load(spec_path(request.param))))
    first = min(key.host for key in desired)
    return [each for key, each in desired.items() if key.host == first]


def test_a_shell_takes_both_scripts(state: list[Resource]) -> None:
    for script in (install_script(state), undo_script(state)):
        subprocess.run(["sh", "-n"], input=script, text=True, check=True, timeout=20)


def test_all_that_is_wanted_is_installed_and_taken_away(state: list[Resource]) -> None:
    installed, undone = install_script(state), undo_script(state)
    for each in state:
        if isinstance(each, File | Venv):
            assert each.path in installed and each.path in undone
        if isinstance(each, Package | Unit):
            assert each.name in installed and each.name in undone
