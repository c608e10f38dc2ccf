"""Flags mean the same however they are spelled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdctl.desired.lmcache import entries
from pdctl.knowledge.flags import FLAGS, OPTIONS, SHORT_FLAGS, SWITCHES
from pdctl.knowledge.matching import SETTINGS
from pdctl.knowledge.memory import ALTERING
from pdctl.spec.rules import findings
from pdctl.spec.rules.arguments import OWNED, PREFIX_CACHING, STATISTICS
from pdctl.spec.rules.environment import reserved
from pdctl.spec.rules.match import settings_are_the_same
from pdctl.spec.rules.settings import effective
from pdctl.topology import resolve
from pdctl.topology.suits import STRETCHING
from tests.topology.specs import cluster

COMPARED = [setting.flag for setting in SETTINGS if setting.flag and setting.flag != "--attention-config"]
OURS = "zq"
SHORT = {long: short for short, long in SHORT_FLAGS.items()}


def spellings(flag: str, value: str) -> list[list[str]]:
    """A switch has no value: any other than ours stands for off."""
    if flag in SWITCHES:
        if value != OURS:
            return [[f"--no-{flag[2:]}"]]
        return [[flag], [f"--{flag[2:].replace('-', '_')}"], [flag, "true"], [beginning(flag)]]
    found = [[flag, value], [f"{flag}={value}"]]
    found += [[f"--{flag[2:].replace('-', '_')}", value], [f"--{flag[2:].replace('-', '_')}={value}"]]
    if flag in SHORT:
        found += [[SHORT[flag], value], [f"{SHORT[flag]}={value}"]]
    return [*found, [beginning(flag), value], [f"{beginning(flag)}={value}"]]


def beginning(flag: str) -> str:
    """The shortest that stands for the flag alone, or for others that begin with it too."""
    for end in range(3, len(flag)):
        fitting = [other for other in OPTIONS if other.startswith(flag[:end])]
        if flag in fitting and all(other.startswith(flag) for other in fitting):
            return flag[:end]
    return flag


@pytest.mark.parametrize("flag", COMPARED)
@pytest.mark.parametrize("connector", ["lmcache", "nixl"])
def test_each_setting_must_be_the_same_in_every_spelling(flag: str, connector: str) -> None:
    ways = spellings(flag, OURS)
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
        (["--block-size", "16"], ["--block-s", "016"]),
        (["--max-logprobs=1_000"], ["--max-logp", "+1000"]),
        (["-qfp8"], ["--quant", "fp8"]),
        (["-asc", "2"], ["--api-server-count=2"]),
        (["--device-memory-utilization=1"], ["--gpu-mem", "1"]),
        (["--no-enable-pre"], ["--no-enable-prefix-caching"]),
        (["--kv-cache-dt", "fp8"], ["--kv-cache-dtype", "fp8"]),
        (["--specu.model=x"], ["-sc", '{"model": "x"}']),
        (["--lora-modules", "a=1", "b=2"], ["--lora-mod", "a=1", "b=2"]),
        (["--chat-template", "- be nice"], ["--chat-template=- be nice"]),
        (["--middleware", "a", "--middleware=b"], ["--middlew=a", "--middleware", "b"]),
    ],
)
def test_two_ways_to_say_one_thing(ours: list[str], theirs: list[str]) -> None:
    def values(words: list[str]) -> dict[str, object]:
        return {flag: value for flag, (value, _) in effective(words).items()}

    assert values(ours) == values(theirs)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--long-prefill-token-threshold", "1024"], 1),
        (["--long-prefill=1024", "--max-num-sched", "512"], 2),
        (["--long-prefill-token-threshold", "0"], 0),
        (["--max-num-scheduled-tokens=131072"], 0),
    ],
)
def test_flags_that_split_a_prompt_are_told_as_its_field_is(words: list[str], told: int) -> None:
    def rules(ranks: int) -> int:
        each = {"tensor_parallel": ranks}
        spec = cluster(serving={"prefillers": {**each, "extra_args": words}, "decoders": each})
        return len([found for found in findings(spec) if found.rule == "KV003"])

    assert (rules(1), rules(2)) == (0, told)


def test_an_attention_backend_is_the_same_in_any_case() -> None:
    assert found(["--attention-backend", "flash_attn"], ["--attention-config.backend=FLASH_ATTN"]) == []
    assert found(["--attention-backend", "flash_attn"], ["--attention-backend", "FLASHINFER"]) != []


def test_all_words_of_a_flag_and_all_its_times_count() -> None:
    assert effective(["--lora-modules", "a=1", "b=2"]) != effective(["--lora-modules", "a=1", "c=2"])
    assert effective(["--middleware", "a", "--middleware", "b"]) != effective(["--middleware", "b"])


def test_every_setting_and_every_flag_that_rules_read_is_a_flag_of_vllms() -> None:
    named = {*OWNED, *ALTERING, *STRETCHING, STATISTICS, PREFIX_CACHING}
    assert {setting.flag for setting in SETTINGS if setting.flag} | named <= FLAGS | {"--kv-cache-memory"}


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        (["--kv-cache-dt", "auto"], []),
        (["--enable-prefix"], ["ARG003"]),
        (["--enable-prefix-caching=false"], ["ARG007"]),
        (["--disable-log-st"], ["ARG005"]),
        (["--tensor-p=2"], ["ARG001"]),
        (["--max-num", "3"], ["ARG001"]),
        (["-dpl", "1"], ["ARG001"]),
        (["-r1"], ["ARG001"]),
        (["--device-memory-utilization", "0.5"], ["ARG001"]),
        (["--enable-p"], ["ARG006"]),
        (["--no-enable"], ["ARG006"]),
        (["--enforce-eager", "true"], ["ARG007"]),
        (["--no-enforce-eager=1"], ["ARG007"]),
        (["--enforce-eager", "x"], ["ARG010"]),
        (["--enforce-eager", "\u2014seed=1"], ["ARG010"]),
        (["--enforce-eagre"], ["ARG008"]),
        (["--middleware", "a", "--middleware", "b"], []),
        (["--seed", "1", "--seed=01"], []),
        (["--chat-template", "- be nice"], []),
        (["--chat-template", "--seed 1"], ["ARG002", "ARG009"]),
        (["--no-enable-prefix-caching"], []),
        (["--seed"], ["ARG009"]),
        (["--seed", "--enforce-eager"], ["ARG009"]),
        (["--seed", "1", "2"], ["ARG010"]),
        (["seed", "1"], ["ARG010", "ARG010"]),
        (["\u2014seed=1"], ["ARG010"]),
        (["--"], ["ARG010"]),
        (["-"], ["ARG010"]),
        (["-tp2"], ["ARG008"]),
        (["-dtype=half"], ["ARG008"]),
        (["-O3"], []),
        (["--kv-cache-dtype", "FP8"], ["ARG011"]),
        (["--kv-cache-dt=fp9"], ["ARG011"]),
        (["-dph"], ["ARG001"]),
        (["--grpc"], ["ARG001"]),
        (["--device-ids", "0"], ["ARG001"]),
    ],
)
def test_what_is_told_of_a_decoders_flags(words: list[str], rules: list[str]) -> None:
    spec = cluster(serving={"prefillers": {}, "decoders": {"extra_args": words}})
    assert sorted(each.rule for each in findings(spec) if not each.rule.startswith("MATCH")) == rules


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
