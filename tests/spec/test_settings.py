"""Flags mean the same however they are spelled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.desired.lmcache import entries
from pdctl.knowledge.matching import SETTINGS, SHORT_FLAGS
from pdctl.spec.rules.environment import reserved
from pdctl.spec.rules.match import settings_are_the_same
from pdctl.spec.rules.settings import effective
from pdctl.topology import resolve
from tests.topology.specs import cluster

FLAGS = [setting.flag for setting in SETTINGS if setting.flag and setting.flag != "--attention-config"]
SHORT = {long: short for short, long in SHORT_FLAGS.items()}


def spellings(flag: str, value: str) -> list[list[str]]:
    found = [[flag, value], [f"{flag}={value}"]]
    found += [[f"--{flag[2:].replace('-', '_')}", value], [f"--{flag[2:].replace('-', '_')}={value}"]]
    return found + ([[SHORT[flag], value], [f"{SHORT[flag]}={value}"]] if flag in SHORT else [])


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("connector", ["lmcache", "nixl"])
def test_each_setting_must_be_the_same_in_every_spelling(flag: str, connector: str) -> None:
    ways = spellings(flag, "zq")
    for ours in ways:
        assert found(ours, [], connector) == [flag]
        assert found([], ours, connector) == [flag]
        assert found(ours, spellings(flag, "other")[0], connector) == [flag]
        for theirs in ways:
            assert found(ours, theirs, connector) == []


def found(prefillers: list[str], decoders: list[str], connector: str = "lmcache") -> list[str]:
    spec = cluster(
        serving={
            "connector": connector,
            "prefillers": {"extra_args": prefillers},
            "decoders": {"extra_args": decoders},
        }
    )
    return [finding.message.split("`")[1] for finding in settings_are_the_same(spec)]


@pytest.mark.parametrize("name", [setting.env for setting in SETTINGS if setting.env])
def test_each_variable_must_be_the_same(name: str) -> None:
    def rules(ours: dict[str, str], theirs: dict[str, str]) -> int:
        spec = cluster(serving={"prefillers": {"env": ours}, "decoders": {"env": theirs}})
        return len(list(settings_are_the_same(spec)))

    assert rules({name: "a"}, {name: "b"}) == rules({name: "a"}, {}) == rules({}, {name: "a"}) == 1
    assert rules({name: "a"}, {name: "a"}) == 0


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (["--a.b=1", "--a.c", "x"], ["--a", '{"c": "x", "b": 1}']),
        (["--a.b.c=1"], ['--a={"b":{"c":1}}']),
        (["--no-a"], ["--a=false"]),
        (["--a"], ["--a", "true"]),
        (["--a", "1", "--a", "2"], ["--a=2"]),
        (["--a", "-1"], ["--a=-1"]),
        (["--attention-config.backend=X"], ["--attention-backend", "X"]),
        (["--a 1"], ["--a", "1"]),
    ],
)
def test_two_ways_to_say_one_thing(ours: list[str], theirs: list[str]) -> None:
    def values(words: list[str]) -> dict[str, object]:
        return {flag: value for flag, (value, _) in effective(words).items()}

    assert values(ours) == values(theirs)


@given(st.lists(st.text(max_size=12), max_size=8))
def test_any_words_can_be_read(words: list[str]) -> None:
    json.dumps(str(effective(words)))


def test_no_variable_changes_what_pdctl_writes_into_lmcaches_file() -> None:
    """LMCache takes every key of its file from LMCACHE_<KEY>, which would win without a word."""
    for version in ("0.3.10", "0.5.6"):
        topology = resolve(cluster(stack={"lmcache": version, "python": "3.10"}))
        for instance in topology.instances:
            for entry in entries(topology, instance):
                name = f"LMCACHE_{entry.key.upper()}"
                # One may be chosen, if it is the same on both sides.
                assert reserved(name) or name in (
                    "LMCACHE_PRE_CACHING_HASH_ALGORITHM",
                    "LMCACHE_INTERNAL_API_SERVER_ENABLED",
                ), name
