import random
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

import pytest

from pdctl.contrib.cpu_connector import register
from pdctl.contrib.cpu_connector.packing import places


def kernel(layout: Sequence[int], largest: int) -> Callable[[Sequence[int]], list[int]]:
    """Something that packs a block: element n goes to index layout[n]; it holds small numbers only."""

    def write(elements: Sequence[int]) -> list[int]:
        assert max(elements) <= largest and min(elements) >= 0
        memory = [0] * len(elements)
        for element, index in zip(elements, layout, strict=True):
            memory[index] = element
        return memory

    return write


@pytest.mark.parametrize(("block", "dim"), [(16, 32), (32, 64), (128, 80), (1, 1)])
def test_any_packing_is_found_with_numbers_that_half_precision_holds(block: int, dim: int) -> None:
    layout = random.Random(block * dim).sample(range(2 * block * dim), 2 * block * dim)
    keys, values = places(kernel(layout, largest=255), block, dim)
    assert [index for token in keys + values for index in token] == layout
    assert (len(keys), len(values)) == (block, block)
    assert {len(token) for token in keys + values} == {dim}


def test_keys_that_are_transposed_are_told_from_values_that_are_not() -> None:
    block, dim = 4, 3
    transposed = [element * block + token for token in range(block) for element in range(dim)]
    plain = list(range(block * dim, 2 * block * dim))
    keys, values = places(kernel(transposed + plain, largest=255), block, dim)
    assert keys[1] == [1, 5, 9]
    assert values[1] == [15, 16, 17]


def test_a_kernel_that_loses_an_element_stops_the_engine() -> None:
    layout = list(range(24))
    layout[7] = 6
    with pytest.raises(RuntimeError, match="block of 4 tokens by 3 is not a permutation"):
        places(kernel(layout, largest=255), 4, 3)


def test_without_its_switch_the_plugin_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PDCTL_CPU_CONNECTOR", raising=False)
    monkeypatch.setitem(sys.modules, "vllm", None)  # importing it would fail
    register()


def test_with_its_switch_it_waits_until_a_connector_is_created(
    monkeypatch: pytest.MonkeyPatch, factory: type
) -> None:
    monkeypatch.setenv("PDCTL_CPU_CONNECTOR", "1")
    monkeypatch.delenv("UCX_RCACHE_MAX_UNRELEASED", raising=False)
    nixl = sys.modules["nixl._api"].nixlBind
    untouched = nixl.nixlAgent
    register()
    assert nixl.nixlAgent is untouched
    assert factory.create_connector(transfer("NixlConnector"), "worker") == "created for worker"
    agent = nixl.nixlAgent("name", ModuleType("config"))
    assert (agent.name, agent.config.pthrDelay) == ("name", 5000)


def test_vllm_may_load_it_again_and_again(monkeypatch: pytest.MonkeyPatch, factory: type) -> None:
    monkeypatch.setenv("PDCTL_CPU_CONNECTOR", "1")
    register()
    once = factory.create_connector.__func__
    register()
    assert factory.create_connector.__func__ is once
    factory.create_connector(transfer("NixlConnector"), "scheduler")
    agent = sys.modules["nixl._api"].nixlBind.nixlAgent
    factory.create_connector(transfer("NixlConnector"), "worker")
    assert sys.modules["nixl._api"].nixlBind.nixlAgent is agent


@pytest.fixture
def factory(monkeypatch: pytest.MonkeyPatch) -> type:
    """Stand-ins of vLLM's factory and NIXL's bindings: the real ones need the engine's environment."""

    class KVConnectorFactory:
        @classmethod
        def create_connector(cls, config: object, role: str) -> str:
            return f"created for {role}"

    class Agent:
        def __init__(self, name: str, config: object) -> None:
            self.name, self.config = name, config

    place = "vllm.distributed.kv_transfer.kv_connector.factory"
    parts = place.split(".")
    for depth in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), ModuleType(parts[depth - 1]))
    sys.modules[place].KVConnectorFactory = KVConnectorFactory
    nixl, api, bindings = ModuleType("nixl"), ModuleType("nixl._api"), ModuleType("bindings")
    bindings.nixlAgent, api.nixlBind, nixl._api = Agent, bindings, api
    monkeypatch.setitem(sys.modules, "nixl", nixl)
    monkeypatch.setitem(sys.modules, "nixl._api", api)
    return KVConnectorFactory


def transfer(connector: str) -> ModuleType:
    config = ModuleType("config")
    config.kv_transfer_config = ModuleType("transfer")
    config.kv_transfer_config.kv_connector = connector
    return config
