"""A host that lost what it kept is not taken for one that held nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pdctl.apply import history, rollback
from pdctl.apply.history import Past, held_by_all
from pdctl.apply.rollback import look_back
from pdctl.errors import ErrorGroup, HostError, UnreachableError
from pdctl.hosts.observation import Kept
from pdctl.hosts.sessions import Sessions
from pdctl.hosts.turn import Manifest, Said
from pdctl.state import Key, Resource
from tests.examples import desired, spec_path, topology

NAME = "lab-simulator"
NOBODY = Sessions({})


def back(monkeypatch: pytest.MonkeyPatch, *without: str, unknown: str = "") -> None:
    """Asks to go back to generation 3, of which the hosts in `without` keep nothing."""
    held: dict[Key, Resource] = {k: r for k, r in desired(NAME).items() if k.host not in (*without, unknown)}
    errors = {unknown: UnreachableError("gone", where=unknown)} if unknown else {}
    monkeypatch.setattr(rollback, "spec_of", lambda *_: spec_path(NAME).read_text())
    monkeypatch.setattr(rollback, "held_by_all", lambda *_: (held, errors))
    look_back(topology(NAME), Path(), NOBODY, Past("sim", {}, {}), 3)


def test_a_host_that_keeps_nothing_of_what_the_spec_put_there_is_not_emptied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ErrorGroup, match="generation 3 cannot be brought back; nothing was changed") as told:
        back(monkeypatch, "h2")
    (error,) = told.value.errors
    assert error.where == "h2" and "generation 3 had decoder-" in error.message
    assert told.value.hint == "install it anew: pdctl history --spec 3 > old.yaml && pdctl apply old.yaml"


def test_all_hosts_that_forgot_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ErrorGroup) as told:
        back(monkeypatch, "h1", "h2")
    assert {error.where for error in told.value.errors} == {"h1", "h2"}


def test_a_host_that_could_not_be_asked_has_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ErrorGroup, match="no host could be looked at"):
        back(monkeypatch, unknown="h2")


@pytest.mark.parametrize(
    "said", [HostError("/store/x: it is damaged", where="h2"), Said(manifest=Manifest(number=3, rows=[{}]))]
)
def test_what_a_host_cannot_say_for_damage_stops_all_of_it(
    monkeypatch: pytest.MonkeyPatch, said: Said | HostError
) -> None:
    """It is not left out, as one that is away is: the others would go back alone."""

    def turn(_: Any, __: str, host: str, *___: Any, **____: Any) -> Said:
        if host == "h2" and isinstance(said, HostError):
            raise said
        return said if host == "h2" and isinstance(said, Said) else Said()

    monkeypatch.setattr(history, "turn", turn)
    with pytest.raises(ErrorGroup, match="generation 3 cannot be brought back; nothing was changed") as told:
        held_by_all(NOBODY, Past("sim", {"h1": Kept(), "h2": Kept()}, {}), 3)
    assert [error.where for error in told.value.errors] == ["h2"]
    assert told.value.hint and "pdctl history --spec 3" in told.value.hint


def test_a_host_that_did_not_answer_before_is_unknown_and_not_empty() -> None:
    gone = UnreachableError("gone", where="h2")
    seen = Past("sim", {}, {"h2": gone})
    assert held_by_all(NOBODY, seen, 3) == ({}, {"h2": gone})
