"""What hosts say of themselves, against the spec: each difference is a finding, none is a traceback."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pdctl.errors import UnreachableError
from pdctl.hosts.observation import Facts, Gpu, Observation
from pdctl.hosts.ready import Ready
from pdctl.hosts.suitability import Glance, unsuited
from pdctl.plan.foreign import Foreign
from pdctl.plan.machine import Machine
from pdctl.spec.finding import Finding
from pdctl.spec.load import inspect
from pdctl.state import Key, Venv
from pdctl.topology.judge import judge, judge_more
from tests.spec.breaking import sound_but_for

SPEC = (
    "hosts: [{name: gpu01, address: 10.0.0.11, gpus: {count: 8, model: H100-SXM-80GB}}]\n"
    "stack: article-2025\nmodel: {id: openai/gpt-oss-20b}\n"
)
GPU = Gpu(0, "u", "NVIDIA H100 80GB HBM3", 81559, 0, "580.95.05", "0", "Disabled")
FACTS = Facts(
    "h", "3.10.12", "5.15", "x86_64", "ubuntu", "22.04", "249", "b", 1000.0, True, 64, 2**40, {"/opt": 2**40},
    tuple(replace(GPU, index=index) for index in range(8)), "580.95.05",
)  # fmt: skip
CUDA = Venv("/opt/pdctl/venvs/engine-cuda-0123456789ab", "d", "3.12")


def found(
    spec: str = SPEC, *, foreign: tuple[Foreign, ...] = (), there: bool = False, **facts: Any
) -> list[Finding]:
    key = Key("gpu01", CUDA.id)
    seen = Observation(
        {key: CUDA} if there else {}, {}, {}, {}, {"gpu01": replace(FACTS, **facts)}, {}, {}, {}
    )
    seen = replace(seen, foreign={"gpu01": foreign})
    glance = Glance(seen, {key: CUDA}, 999.0, 1001.0)
    return list(unsuited(judge(inspect(sound_but_for(spec), "c")).sound(), glance))


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(each.rule, each.message) for each in findings]


def test_a_host_that_fits_is_silent() -> None:
    assert told(found()) == []


@pytest.mark.parametrize(
    ("facts", "rule", "says"),
    [
        ({"os_id": "debian", "os_version": "12"}, "FACT002", "runs debian-12, the spec says ubuntu-22.04"),
        ({"python": "3.8.10"}, "FACT003", "python3 3.8.10; that of ubuntu-22.04 is 3.10"),
        ({"arch": "aarch64"}, "FACT003", "aarch64"),
        ({"systemd": ""}, "FACT003", "no systemd"),
        ({"gpus": FACTS.gpus[:7]}, "FACT004", "shows 7 GPUs, the spec says 8"),
        ({"gpus": ()}, "FACT004", "shows 0 GPUs"),
        ({"disk_free": {"/opt": 5 << 30}}, "FACT009", "5.0 GiB free in /opt"),
        ({"time_s": 1300.0}, "FACT010", "299 s ahead of"),
        ({"time_s": 900.0}, "FACT010", "99 s behind"),
        ({"ready": Ready(clock_kept=False)}, "FACT033", "has a clock that nothing keeps in time"),
        ({"driver": "570.195.03"}, "FACT011", "runs driver 570.195.03, the stack pins 580.95.05"),
    ],
)
def test_each_difference_is_told(facts: dict[str, Any], rule: str, says: str) -> None:
    ((one, message),) = told(found(**facts))
    assert one == rule and says in message and message.startswith("gpu01 ")


def test_other_boards_less_memory_and_slices_are_told() -> None:
    gpus = [*FACTS.gpus]
    gpus[0] = replace(GPU, name="NVIDIA H200", memory_total=143771)
    gpus[7] = replace(GPU, index=7, memory_total=40000, mig_mode_current="Enabled")
    rules = [rule for rule, _ in told(found(gpus=tuple(gpus)))]
    assert rules == ["FACT005", "FACT006", "FACT006"]


def test_gpus_that_nothing_uses_are_not_looked_at() -> None:
    gpus = [*FACTS.gpus]
    gpus[3] = replace(GPU, index=3, memory_total=1)
    assert told(found(gpus=tuple(gpus))) == []


def test_others_on_our_ports_and_gpus_are_told() -> None:
    rows = (
        Foreign("port", "7200", "decoder-0", "gpu01", 9, "nginx", "root"),
        Foreign("gpu", "0", "prefiller-0"),
    )
    findings = found(foreign=rows)
    assert [each.rule for each in findings] == ["FACT007", "FACT008"]
    assert "port 7200 (decoder-0) is held by nginx, pid 9 of root" in findings[0].message


def test_what_is_installed_needs_no_more_room() -> None:
    assert told(found(there=True, disk_free={"/opt": 1 << 30})) == []


def test_room_is_that_of_the_disk_on_which_environments_are() -> None:
    ((rule, message),) = told(found(disk_free={"/opt": 2**40, "/opt/pdctl": 1 << 30}))
    assert rule == "FACT009" and "1.0 GiB free in /opt/pdctl" in message


def test_a_driver_too_old_for_the_wheels_is_told_where_none_is_pinned() -> None:
    spec = SPEC.replace("article-2025", '{vllm: "0.32.0"}')
    ((rule, message),) = told(found(spec, driver="570.86.10"))
    assert rule == "FACT012" and "branch 580" in message
    assert told(found(spec.replace("0.32.0", "0.11.0"), driver="570.86.10")) == []


def test_a_host_without_a_driver_yet_is_not_blamed_for_its_version() -> None:
    assert told(found(driver="")) == []


def test_findings_stand_at_the_host_and_may_be_suppressed() -> None:
    seen = inspect(
        sound_but_for(SPEC + "suppress: [{rule: FACT010, reason: no NTP in this lab}]\n"), "c.yaml"
    )
    alone = judge(seen)
    assert not alone.warnings  # unasked hosts say nothing: that is no useless suppression
    failing = Observation({}, {}, {}, {}, {}, {}, {}, {"gpu01": UnreachableError("no answer", hint="look")})
    glance = Glance(failing, {}, 0, 0)
    more = judge_more(seen, alone, [*unsuited(alone.sound(), glance), *found(time_s=5000.0)])
    (error,) = more.errors
    assert error.rule == "FACT001" and "gpu01: no answer" in error.message and error.hint == "look"
    assert error.place and error.place.path == "hosts[0]" and error.place.line
    assert more.topology is None and [each.rule for each, _ in more.suppressed] == ["FACT010"]


NEXT = Machine(
    libraries={"libnvidia-compute-580-server": "580.95.05-0ubuntu0.22.04.2"},
    next_kernel="6.8.0-64-generic",
    chosen_by="the newest in /boot",
)


def test_a_next_kernel_without_a_driver_is_told() -> None:
    ((rule, message),) = told(found(stack=NEXT, kernel="6.8.0-60-generic"))
    assert rule == "FACT022"
    assert "gpu01 would lose its driver: kernel 6.8.0-64-generic boots next" in message
    assert "has no module nvidia, and its headers are missing" in message
    (finding,) = found(stack=NEXT)
    assert finding.hint.startswith("apt-get install linux-headers-6.8.0-64-generic, then dkms autoinstall")
    assert not found(stack=replace(NEXT, built=("nvidia",)))
    assert not found("stack: {vllm: '0.32.0'}\n" + SPEC.replace("stack: article-2025\n", ""), stack=NEXT)


def test_a_driver_that_was_changed_under_the_loaded_module_is_told() -> None:
    moved = replace(NEXT, libraries={"libnvidia-compute-580-server": "580.159.03-1"}, built=("nvidia",))
    ((rule, message),) = told(found(stack=moved))
    assert rule == "FACT023" and "loaded module 580.95.05, user space 580.159.03 -> apply brings" in message
