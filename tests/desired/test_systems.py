"""Each host's own runtimes are made for the Python of its system."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from pdctl.bundle.resolve import RECIPES
from pdctl.desired import desire
from pdctl.knowledge.systems import DEFAULT_SYSTEM, SYSTEM_PYTHON
from pdctl.knowledge.versions import DEFAULT_PINS
from pdctl.parts.lock import locked_pythons
from pdctl.spec.model import Host
from pdctl.state import Venv
from pdctl.topology import resolve
from tests.examples import desired
from tests.topology import specs


def pythons(**changes: Any) -> set[tuple[str, str, str]]:
    """(host, runtime, Python) of every environment of a cluster."""
    return {
        (key.host, venv.path.rsplit("/", 1)[1].rsplit("-", 1)[0], venv.python)
        for key, venv in desire(resolve(specs.cluster(**changes))).items()
        if isinstance(venv, Venv)
    }


def test_every_system_of_the_spec_has_a_python_and_every_engine_a_system() -> None:
    (words,) = (each for each in get_args(Host.model_fields["os"].annotation) if get_args(each))
    assert set(get_args(words)) == SYSTEM_PYTHON.keys() >= set(DEFAULT_SYSTEM.values())
    assert DEFAULT_SYSTEM.keys() == DEFAULT_PINS.keys()


@pytest.mark.parametrize("name", ["proxy", "simulator"])
def test_proxy_and_simulator_are_locked_for_every_system(name: str) -> None:
    assert set(locked_pythons(name)) == set(SYSTEM_PYTHON.values()) == set(RECIPES[name].pythons)


def test_the_articles_host_gets_the_proxy_on_ubuntus_python_and_the_engine_on_the_stacks() -> None:
    venvs = [r for r in desired("hgx-h100-article").values() if isinstance(r, Venv)]
    assert {(v.path.split("-")[0].rsplit("/", 1)[1], v.python) for v in venvs} == {
        ("proxy", "3.10"),
        ("engine", "3.12"),
    }


def test_a_simulator_cluster_mixes_systems_and_ignores_the_stacks_python() -> None:
    hosts = [
        {"name": f"h{i}", "address": f"10.0.0.{i}", "os": system} for i, system in enumerate(SYSTEM_PYTHON, 1)
    ]
    serving = {"prefillers": {"count": 1}, "decoders": {"count": 2}, "proxy": {"host": "h3"}}
    assert pythons(engine="simulator", stack="article-2025", hosts=hosts, serving=serving) == {
        ("h1", "simulator", "3.11"),
        ("h2", "simulator", "3.10"),
        ("h3", "simulator", "3.12"),
        ("h3", "proxy", "3.12"),
    }


def test_the_same_runtime_on_another_python_is_another_folder() -> None:
    paths = set()
    for system in SYSTEM_PYTHON:
        hosts = [{"name": "h1", "address": "10.0.0.1", "gpus": 8, "os": system}]
        state = desire(resolve(specs.cluster(hosts=hosts)))
        paths |= {v.path for v in state.values() if isinstance(v, Venv) and "/proxy-" in v.path}
    assert len(paths) == len(SYSTEM_PYTHON)
