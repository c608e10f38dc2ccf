"""What a unit asks of systemd: limits, restarts, order, and clocks that agree."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from pdctl.state import File, Unit
from tests.desired.rendered import UNIT_FOLDER, example, rendered
from tests.examples import EXAMPLES
from tests.topology.specs import serving
from tests.units import reader

# Settings of every unit: section, key, what its values must satisfy, and why.
WANTED = {
    "rdma needs locked memory, and limits.d does not reach services": ("Service", "LimitMEMLOCK", "infinity"),
    "a socket and a file per connection": ("Service", "LimitNOFILE", "1048576"),
    "workers are threads and processes": ("Service", "TasksMax", "infinity"),
    "a host that heals after ten minutes must find its engine trying": ("Unit", "StartLimitIntervalSec", "0"),
    "an engine whose worker died ends with status 0": ("Service", "Restart", "always"),
    "no burning loop": ("Service", "RestartSec", "10"),
    "the engine ends its own workers": ("Service", "KillMode", "mixed"),
    "a unit is up when its program runs; health is asked of the engine": ("Service", "Type", "exec"),
    "started at boot": ("Install", "WantedBy", "multi-user.target"),
}
# cuda_ipc needs engines to see each other's processes and shared memory.
HIDES_PEERS = {"PrivateTmp", "PrivateIPC", "PrivateUsers", "PrivateNetwork", "ProtectProc", "DevicePolicy"}


@functools.cache
def unit_files(name: str) -> dict[str, dict[str, list[tuple[str, str]]]]:
    return {
        r.path.removeprefix(UNIT_FOLDER): reader.sections((r.content or b"").decode())
        for r in example(name).state.values()
        if isinstance(r, File) and r.path.startswith(UNIT_FOLDER)
    }


@pytest.mark.parametrize(("section", "key", "value"), WANTED.values(), ids=WANTED)
def test_every_unit_asks_for_it(section: str, key: str, value: str) -> None:
    for name in EXAMPLES:
        for unit, found in unit_files(name).items():
            assert (key, value) in found[section], unit
            assert [s for s, rows in found.items() for k, _ in rows if k == key] == [section]


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_unit_hides_an_engine_from_its_peers(name: str) -> None:
    for unit, found in unit_files(name).items():
        assert not {key for rows in found.values() for key, _ in rows} & HIDES_PEERS, unit


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_engine_has_time_to_finish_its_requests(name: str) -> None:
    for unit in unit_files(name).values():
        [stop] = [value for key, value in unit["Service"] if key == "TimeoutStopSec"]
        assert int(stop) >= 60


@pytest.mark.parametrize("seconds", [1800, 7200])
def test_the_clocks_of_engine_and_gate_agree(seconds: int) -> None:
    """vLLM's own limit and pdctl's wait are one; systemd's is only that of starting a program."""
    found = rendered(serving=serving(1, 1, 1) | {"load_timeout_s": seconds})
    units = [r for r in found.state.values() if isinstance(r, Unit) and r.role != "proxy"]
    assert {unit.health_s for unit in units} == {seconds}
    for engine in found.engines.values():
        assert engine.env["VLLM_ENGINE_READY_TIMEOUT_S"] == str(seconds)
        assert not engine.setting("Service", "ExecStartPost")  # nothing that waits for readiness


def test_engines_on_gpus_must_have_the_memory_they_lock_and_others_what_their_host_gives() -> None:
    limits = {name: {unit.limits for unit in units(name) if unit.role != "proxy"} for name in EXAMPLES}
    on_gpus = (("Max locked memory", "unlimited"), ("Max open files", "65536"))
    assert limits.pop("lab") == limits.pop("lab-simulator") == limits.pop("lab-aggregated") == {()}
    assert limits and all(found == {on_gpus} for found in limits.values())


def units(name: str) -> list[Unit]:
    return [resource for resource in example(name).state.values() if isinstance(resource, Unit)]


def test_loading_may_take_half_an_hour_by_default() -> None:
    assert example("hgx-h100-article").engines["decoder-0"].env["VLLM_ENGINE_READY_TIMEOUT_S"] == "1800"


@pytest.mark.parametrize(
    ("model", "services"),
    [
        ("H100-SXM-80GB", {"nvidia-persistenced.service", "nvidia-fabricmanager.service"}),
        ("H100-PCIE-80GB", {"nvidia-persistenced.service"}),  # no NVSwitch, no Fabric Manager
        (None, {"nvidia-persistenced.service"}),
    ],
)
def test_engines_start_after_what_their_gpus_need(model: str | None, services: set[str]) -> None:
    gpus: dict[str, Any] = {"count": 8} | ({"model": model} if model else {})
    found = rendered(
        model={"id": "openai/gpt-oss-20b"}, hosts=[{"name": "g", "address": "10.0.0.1", "gpus": gpus}]
    )
    for engine in found.engines.values():
        for key in ("After", "Wants"):
            named = set(" ".join(engine.setting("Unit", key)).split())
            assert named == services | {"network-online.target"}


@pytest.mark.parametrize("count", [4, 8])
def test_engines_wait_for_every_gpu_of_their_host(count: int) -> None:
    found = rendered(hosts=[{"name": "g", "address": "10.0.0.1", "gpus": count}])
    for engine in found.engines.values():
        [_, wait] = engine.setting("Service", "ExecStartPre")
        shell, option, script = reader.split(wait)
        assert (shell, option) == ("/bin/sh", "-c")
        assert f'/dev/nvidia[0-9]* 2>/dev/null | wc -l)" -ge {count} ]' in script
        assert "$" not in script.replace("$$", "")  # a shell's `$`, not systemd's


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_process_carries_the_revision_that_pdctl_compares(name: str) -> None:
    found = example(name)
    for unit in (r for r in found.state.values() if isinstance(r, Unit)):
        [text] = [t for key, t in found.texts().items() if key.id.endswith(unit.name)]
        assert reader.environment(text) == {"PDCTL_REVISION": unit.revision}
