"""Every check of a host by name, also when it is fine: the rules of `validate --hosts` and no others."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from rich.console import Console

from pdctl.errors import UnreachableError
from pdctl.hosts.check_rows import REACH, ROWS
from pdctl.hosts.checkup import Check, Checkup, Status, checkups
from pdctl.hosts.observation import Observation
from pdctl.hosts.ready import Deep, HugePages, Ready
from pdctl.hosts.suitability import Glance
from pdctl.plan.foreign import Foreign
from pdctl.spec.load import inspect
from pdctl.spec.rules.table import TABLE
from pdctl.topology.judge import judge
from pdctl.views.doctor import doctor_document, show_doctor, worst
from tests.cli.test_json_documents import untold
from tests.hosts_unit.test_suitability import FACTS, NEXT, SPEC
from tests.spec.breaking import sound_but_for

LAB = "hosts: [{name: h1, address: 198.18.0.10}]\nengine: simulator\nmodel: {id: pdctl/tiny}\n"
READY = Ready(8, ("identity",), (), True, HugePages(0, 0, 2048), "unlimited", "1048576", clock_kept=True)
DEEP = Deep(
    {f"{one}-{two}": "NV18" for one, two in combinations(range(8), 2)},
    dict.fromkeys(range(8), 0),
    dict.fromkeys(range(8), ("Completed", "Success")),
    "active",
    {"huggingface.co": ("18.0.0.1",)},
)


def checkup(
    spec: str = SPEC, *, foreign: tuple[Foreign, ...] = (), failure: bool = False, **facts: Any
) -> Checkup:
    seen = inspect(sound_but_for(spec), "cluster.yaml")
    topology = judge(seen).sound()
    (host,) = topology.hosts
    stack = replace(NEXT, built=("nvidia",), headers=True)
    gpus = tuple(replace(gpu, path=f"/devices/pci0000:{gpu.index:02x}") for gpu in FACTS.gpus)
    known = replace(FACTS, gpus=gpus)
    known = replace(known, **{"stack": stack, "ready": READY, "deep": DEEP, "numa_nodes": (0, 1), **facts})
    failures = {host: UnreachableError("no answer", hint="look at its network")} if failure else {}
    look = Observation({}, {}, {}, {}, {} if failure else {host: known}, {}, {}, failures)
    (found,) = checkups(topology, Glance(replace(look, foreign={host: foreign}), {}, 999.0, 1001.0), seen)
    return found


def check(found: Checkup, name: str) -> Check:
    return next(each for each in found.checks if each.name == name)


def shown(found: Checkup) -> str:
    file = io.StringIO()
    show_doctor([found], Console(file=file, highlight=False, soft_wrap=True, width=1000))
    return file.getvalue()


def test_every_rule_about_hosts_belongs_to_one_check() -> None:
    rules = [rule for row in (REACH, *ROWS) for rule in row.rules]
    assert sorted(rules) == sorted(rule for rule in TABLE if rule.startswith("FACT"))
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_a_healthy_host_shows_each_check_with_what_was_found() -> None:
    found = checkup()
    assert found.status is Status.OK and found.findings == []
    assert [each.name for each in found.checks] == [row.name for row in (REACH, *ROWS)]
    assert {each.status for each in found.checks} == {Status.OK, Status.NOT_NEEDED}, found
    assert check(found, "NVLink").found == "28 pairs NV18"
    assert check(found, "fabric").found == "8 GPUs taken in, nvidia-fabricmanager active"
    assert check(found, "memlock").found == "unlimited for a service"
    assert check(found, "DNS").found == "huggingface.co -> 18.0.0.1"
    assert check(found, "GPUs").found == "8 x H100-SXM-80GB; engines use 0, 7"
    assert check(found, "driver").found.startswith("loaded 580.95.05, on disk 580.95.05, pinned 580.95.05-")
    assert check(found, "next kernel").found == (
        "6.8.0-64-generic (the newest in /boot), headers there, modules nvidia"
    )
    assert check(found, "clock").found == "as this machine's, kept in time"
    assert "1 host: nothing is wrong" in shown(found)


def test_what_is_wrong_stands_at_its_check_with_rule_place_and_next_step() -> None:
    port = Foreign("port", "7200", "decoder-0", "gpu01", 9, "nginx", "root")
    found = checkup(foreign=(port,), gpus=FACTS.gpus[:7], time_s=1300.0)
    assert found.status is Status.ERROR
    assert {each.name for each in found.checks if each.status is Status.ERROR} == {"ports", "GPUs"}
    assert check(found, "clock").status is Status.WARNING and check(found, "clock").found.startswith("+299 s")
    text = shown(found)
    assert "port 7200 (decoder-0) is held by nginx, pid 9 of root [FACT007]" in text
    assert "error: cluster.yaml:" in text and "hint: end that process, or choose another port" in text
    assert "1 host: 2 errors, 1 warning" in text


def test_gpus_that_only_wait_for_their_driver_are_no_error() -> None:
    found = checkup(gpus=(), driver="")
    assert check(found, "GPUs").status is Status.OK
    assert check(found, "GPUs").found.startswith("8 on PCI, no driver yet: apply installs it")
    fewer = checkup(gpus=(), driver="", ready=replace(READY, pci_gpus=7))
    (told,) = check(fewer, "GPUs").findings
    assert "shows 0 GPUs (7 on PCI), the spec says 8" in told.message


def test_a_host_without_gpus_is_not_asked_for_any() -> None:
    found = checkup(LAB, os_id="debian", os_version="12", python="3.11.2", gpus=(), driver="", deep=Deep())
    assert found.status is Status.OK
    idle = [each.name for each in found.checks if each.status is Status.NOT_NEEDED]
    assert {"GPUs", "driver", "NICs", "next kernel"} <= set(idle) and "ports" not in idle
    assert "not needed (no engine here uses GPUs): GPUs, GPU users, NVLink, " in shown(found)
    assert "not needed (nothing is looked up there): DNS\n" in shown(found)


def test_a_host_that_does_not_answer_has_one_check() -> None:
    found = checkup(failure=True)
    (only,) = found.checks
    assert (only.name, only.status) == ("reach", Status.ERROR) and "[FACT001]" in shown(found)


def test_what_only_root_sees_is_unknown_to_others() -> None:
    assert check(checkup(root=False), "ports").status is Status.UNKNOWN


def test_what_the_spec_sets_aside_is_shown_and_does_not_count() -> None:
    found = checkup(SPEC + "suppress: [{rule: FACT010, reason: no NTP in this lab}]\n", time_s=1300.0)
    assert found.status is Status.OK and check(found, "clock").status is Status.OK
    assert "suppressed: cluster.yaml:" in shown(found) and "(no NTP in this lab)" in shown(found)


@pytest.mark.parametrize("facts", [{}, {"gpus": ()}, {"time_s": 1300.0}])
def test_the_document_is_told(facts: dict[str, Any]) -> None:
    found = checkup(**facts)
    document = doctor_document("chat", [found])
    assert untold(document) - {"error", "where", "hint", "rule", "severity"} == set()
    assert document["status"] == worst([found]).value == document["hosts"][0]["status"]
