"""What an engine's process finds around it: caches, devices, names of hosts."""

from __future__ import annotations

from pathlib import PurePosixPath as Path

import pytest

from pdctl.state import Directory
from tests.desired.rendered import Engine, Rendered, example, rendered
from tests.examples import EXAMPLES
from tests.topology.specs import hosts, serving

# Each library has a cache root of its own (vLLM, PyTorch, Triton, the XDG default of the others).
CACHES = ("HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
SHARED = "/opt/pdctl/models/huggingface"


def crowded() -> Rendered:
    """Four prefillers and four decoders on one host."""
    return rendered(serving=serving(4, 4, 1))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_cache_is_a_folder_that_systemd_makes_for_the_unit(name: str) -> None:
    for engine in example(name).engines.values():
        [cache] = engine.setting("Service", "CacheDirectory")
        assert engine.setting("Service", "CacheDirectoryMode") == ["0750"]
        assert engine.setting("Service", "User") == ["pdctl"]
        for variable in CACHES:
            path = Path(engine.env[variable])
            assert path.is_relative_to(f"/var/cache/{cache}"), variable


def test_no_two_instances_of_a_host_share_a_cache() -> None:
    """Engines that started together spoilt a shared compile cache (vllm 18851, 24601)."""
    engines = crowded().engines.values()
    for variable in (*CACHES, "LMCACHE_CONFIG_FILE"):
        found = [engine.env[variable] for engine in engines]
        assert len(set(found)) == len(found) == 8, variable
    folders = [engine.setting("Service", key) for engine in engines for key in ("CacheDirectory",)]
    assert len({str(folder) for folder in folders}) == 8


def test_names_that_lmcache_makes_sockets_and_metrics_from_are_unique_on_a_host() -> None:
    engines = crowded().engines.values()
    rpc = [(e.transfer or {})["kv_connector_extra_config"]["lmcache_rpc_port"] for e in engines]
    assert len(set(rpc)) == 8 and all(len(name) < 30 for name in rpc)  # a unix socket's path has 107
    assert len({e.lmcache["lmcache_instance_id"] for e in engines}) == 8


def test_weights_loaded_by_name_are_kept_once_for_a_host() -> None:
    found = crowded()
    assert {engine.env["HF_HOME"] for engine in found.engines.values()} == {SHARED}
    folder = next(r for r in found.state.values() if isinstance(r, Directory) and r.path == SHARED)
    assert (folder.owner, folder.group, folder.mode) == ("pdctl", "pdctl", "0750")


@pytest.mark.parametrize(
    "model", [{"id": "x/y", "path": "/models/y"}, {"id": "openai/gpt-oss-120b", "path": "/m"}]
)
def test_weights_in_a_folder_need_no_shared_one(model: dict[str, str]) -> None:
    found = rendered(model=model | {"max_model_len": 1024}, serving=serving(1, 1, 1, "nixl"))
    for engine in found.engines.values():
        assert engine.env["HF_HOME"] == f"{engine.env['HOME']}/huggingface"
        assert engine.argv[4] == model["path"]
    assert not [r for r in found.state.values() if isinstance(r, Directory) and "models" in r.path]


def test_the_users_own_folder_for_weights_wins() -> None:
    pools = {"prefillers": {"env": {"HF_HOME": "/data/hf"}}, "decoders": {"env": {"HF_HOME": "/data/hf"}}}
    assert {engine.env["HF_HOME"] for engine in rendered(serving=pools).engines.values()} == {"/data/hf"}


@pytest.mark.parametrize("name", ["hgx-h100-article", "hgx-h100-aggregated", "two-hosts-xpyd"])
def test_gpus_are_named_in_the_order_that_nvidia_smi_counts(name: str) -> None:
    for engine in example(name).engines.values():
        assert engine.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        gpus = engine.env["CUDA_VISIBLE_DEVICES"].split(",")
        assert len(gpus) == int(engine.flag("tensor-parallel-size") or 0)


@pytest.mark.parametrize("name", ["lab", "lab-aggregated", "lab-simulator"])
def test_hosts_without_gpus_are_told_nothing_of_gpus(name: str) -> None:
    for engine in example(name).engines.values():
        assert not [variable for variable in engine.env if variable.startswith("CUDA")]
        assert not [line for line in engine.setting("Service", "ExecStartPre") if "/dev/nvidia" in line]


def test_the_order_of_gpus_is_kept_as_given() -> None:
    placed = {"tensor_parallel": 2, "placement": [{"host": "gpu01", "gpus": [3, 1]}]}
    found = rendered(serving={"prefillers": placed, "decoders": {"tensor_parallel": 2}})
    assert found.engines["prefiller-0"].env["CUDA_VISIBLE_DEVICES"] == "3,1"


@pytest.mark.parametrize("connector", ["lmcache", "nixl"])
def test_no_host_is_told_to_reach_another_at_itself(connector: str) -> None:
    """Neither loopback nor a wildcard, but for the internal API, which no peer uses and which is off."""
    found = rendered(hosts=hosts(3, gpus=4), serving=serving(4, 4, 1, connector))
    assert len({engine.host for engine in found.engines.values()}) > 1
    suspects = ("localhost", "127.", "0.0.0.0", "::", "//gpu")
    lines = [line for text in found.texts().values() for line in text.splitlines()]
    bad = [line for line in lines if any(word in line for word in suspects)]
    assert {line for line in bad if not line.startswith("#")} <= {'internal_api_server_host: "127.0.0.1"'}


@pytest.mark.parametrize("connector", ["lmcache", "nixl"])
def test_each_instance_gives_its_hosts_private_address(connector: str) -> None:
    machines = [
        {"name": "a", "address": "192.0.2.1", "private_address": "10.0.0.1", "gpus": 4},
        {"name": "b", "address": "192.0.2.2", "private_address": "10.0.0.2", "gpus": 4},
    ]
    found = rendered(hosts=machines, serving=serving(4, 4, 1, connector))
    private = {"a": "10.0.0.1", "b": "10.0.0.2"}
    for engine in found.engines.values():
        assert addresses_of(engine) == {private[engine.host]}
    assert not [text for text in found.texts().values() if "192.0.2." in text]


def addresses_of(engine: Engine) -> set[str]:
    """Every address by which the instance says where it is."""
    found = {engine.flag("host"), engine.env["VLLM_HOST_IP"]}
    found.add(engine.env.get("VLLM_NIXL_SIDE_CHANNEL_HOST", engine.flag("host")))
    found.add(engine.lmcache.get("pd_peer_host", engine.flag("host")))
    return {address for address in found if address}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_stray_variable_overrides_an_lmcache_key(name: str) -> None:
    """LMCache takes any key from LMCACHE_<KEY>, and the variable wins over the file without a word."""
    for engine in example(name).engines.values():
        own = {variable for variable in engine.env if variable.startswith("LMCACHE_")}
        assert own <= {"LMCACHE_CONFIG_FILE", "LMCACHE_TRACK_USAGE"}
