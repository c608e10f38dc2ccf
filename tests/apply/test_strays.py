"""Units that nobody recorded: destroy refuses their host, everything else only warns."""

from __future__ import annotations

from dataclasses import replace

from pdctl.apply.strays import stray_warnings, without_lost_records
from pdctl.hosts.observation import Observation
from tests.apply.test_systems import seen
from tests.examples import desired

UNIT = "pdctl-sim-decoder-0.service"


def strayed(recorded: bool) -> Observation:
    found = seen(h1=("debian", "12"), h2=("debian", "12"))
    records = {host: meta for host, meta in found.records.items() if recorded or host != "h1"}
    return replace(found, strays={"h1": (UNIT,)}, records=records)


def test_destroy_refuses_a_host_whose_record_is_lost_and_no_other() -> None:
    left = without_lost_records("sim", {}, strayed(recorded=False))
    assert left.facts.keys() == {"h2"} and not left.strays
    error = left.failures["h1"]
    assert str(error) == f"h1: units of `sim` run here but there is no record of them: {UNIT}"
    assert error.hint == "`pdctl apply` writes the record anew, then destroy"


def test_what_is_wanted_or_recorded_goes_on() -> None:
    for wish, looked in (({}, strayed(recorded=True)), (desired("lab"), strayed(recorded=False))):
        assert without_lost_records("sim", wish, looked) is looked


def test_strays_are_told_by_host() -> None:
    [line] = stray_warnings(strayed(recorded=True))
    assert line.startswith(f"h1: neither the spec nor the record names {UNIT};")
