"""Ways in which people write a command line, and what is read from them."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from pdctl.adopt.words import after_program, read_words, whole_number

FLAGS: list[tuple[str, dict[str, Any]]] = [
    ("--tensor-parallel-size 2", {"tensor-parallel-size": "2"}),
    ("--tensor-parallel-size=2", {"tensor-parallel-size": "2"}),
    ("--tensor_parallel_size 2", {"tensor-parallel-size": "2"}),
    ("--tensor_parallel_size=2", {"tensor-parallel-size": "2"}),
    ("--tensor-parallel 2", {"tensor-parallel-size": "2"}),
    ("-tp 2", {"tensor-parallel-size": "2"}),
    ("-tp=2", {"tensor-parallel-size": "2"}),
    ("-tp 2 --tensor-parallel-size 4", {"tensor-parallel-size": "4"}),
    ("-pp 2 -dp 1", {"pipeline-parallel-size": "2", "data-parallel-size": "1"}),
    ("-O3", {"compilation-config": "3"}),
    ("-O 3", {"compilation-config": "3"}),
    ("-O '{\"level\": 3}'", {"compilation-config": {"level": 3}}),
    ("-O.level 3", {"compilation-config": {"level": 3}}),
    ("--enforce-eager --port 1", {"enforce-eager": True, "port": "1"}),
    ("--no-enforce-eager", {"enforce-eager": False}),
    ("--no-enable-prefix-caching M", {"enable-prefix-caching": False}),
    ("--disable-log-requests", {"disable-log-requests": True}),
    ("--served-model-name a b --port 1", {"served-model-name": ("a", "b"), "port": "1"}),
    ("--seed -1", {"seed": "-1"}),
    ("--chat-template='a b'", {"chat-template": "a b"}),
    ("--new-flag-of-tomorrow --port 1", {"new-flag-of-tomorrow": True, "port": "1"}),
    ("--new-flag-of-tomorrow x", {"new-flag-of-tomorrow": "x"}),
    ('--kv-transfer-config \'{"kv_role":"kv_both"}\'', {"kv-transfer-config": {"kv_role": "kv_both"}}),
    ('--kv-transfer-config=\'{"kv_role":"kv_both"}\'', {"kv-transfer-config": {"kv_role": "kv_both"}}),
    (
        "--kv-transfer-config.kv_role kv_producer --kv-transfer-config.kv_connector=NixlConnector",
        {"kv-transfer-config": {"kv_role": "kv_producer", "kv_connector": "NixlConnector"}},
    ),
    (
        '--kv-transfer-config \'{"kv_role":"x","a":1}\' --kv_transfer_config.kv_role y',
        {"kv-transfer-config": {"kv_role": "y", "a": 1}},
    ),
    (
        "--kv-transfer-config.kv_connector_extra_config.skip_last_n_tokens 1"
        " --kv-transfer-config.kv_connector_extra_config.backends+ UCX"
        " --kv-transfer-config.kv_connector_extra_config.backends+ GDS",
        {
            "kv-transfer-config": {
                "kv_connector_extra_config": {"skip_last_n_tokens": 1, "backends": ["UCX", "GDS"]}
            }
        },
    ),
]


@pytest.mark.parametrize(("words", "flags"), FLAGS, ids=[words for words, _ in FLAGS])
def test_a_flag_is_read_however_it_is_spelled(words: str, flags: dict[str, Any]) -> None:
    assert read_words(["serve", *shlex.split(words)]).flags == flags


@pytest.mark.parametrize(
    "line",
    [
        "/venv/bin/python /venv/bin/vllm serve M --port 1",
        "python3.12 -m vllm.entrypoints.openai.api_server serve M --port 1",
        "/usr/bin/python3 -u -m vllm.entrypoints.cli.main serve M --port 1",
        "python -um pdctl_simulator serve M --port 1",
        "python -W ignore -X dev -mvllm serve M --port 1",
        "vllm serve M --port 1",
    ],
)
def test_the_words_of_the_program_begin_behind_it(line: str) -> None:
    assert after_program(line.split()) == ["serve", "M", "--port", "1"]


def test_words_before_and_after_a_switch_are_the_model() -> None:
    assert read_words(["serve", "--enforce-eager", "org/M"]).positional == ("serve", "org/M")
    assert read_words(["serve", "org/M", "--enforce-eager"]).positional == ("serve", "org/M")


def test_a_flag_is_remembered_as_it_was_written() -> None:
    command = read_words(["--max_num_seqs=8", "-O3", "--seed", "1"])
    assert command.given == {
        "max-num-seqs": ("--max_num_seqs=8",),
        "compilation-config": ("-O3",),
        "seed": ("--seed", "1"),
    }


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("32768", 32768),
        ("32k", 32000),
        ("32K", 32768),
        ("1.5k", 1500),
        ("1M", 2**20),
        ("1.5K", None),
        ("auto", None),
    ],
)
def test_lengths_are_read_as_vllm_reads_them(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_a_config_file_gives_what_the_command_line_does_not() -> None:
    text = (
        "model: org/M\ntensor_parallel_size: 4\nport: 7100\nenforce-eager: true\n"
        "served-model-name: [a, b]\nkv-transfer-config: {kv_role: kv_producer}\n"
    )
    command = read_words(["serve", "--config", "run.yaml", "--port", "8000"], {"run.yaml": text})
    assert command.text("port") == "8000" and command.number("tensor-parallel-size") == 4
    assert command.flags["kv-transfer-config"] == {"kv_role": "kv_producer"}
    assert command.flags["enforce-eager"] is True and command.text("served-model-name") == "a"


@pytest.mark.parametrize("text", ["", "- a\n", "a: [\n", "\x00"])
def test_a_broken_config_file_gives_nothing(text: str) -> None:
    assert read_words(["--config", "c"], {"c": text}).flags == {"config": "c"}
