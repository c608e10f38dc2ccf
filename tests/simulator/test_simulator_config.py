"""What vLLM and LMCache refuse at start is refused, what they merely warn of is let through."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pdctl.simulator.__main__ import main
from pdctl.simulator.args import check_arguments, parse_arguments
from pdctl.simulator.errors import StartError
from pdctl.simulator.faults import Faults
from pdctl.simulator.lmcache import LMCache, read_lmcache
from pdctl.simulator.parameters import Parameters, parse_parameters, version
from pdctl.simulator.transfer import Transfer, parse_transfer

CHUNK_BYTES = 73_728 * 256  # gpt-oss-120b at one rank
COMMON = {"enable_pd": True, "transfer_channel": "nixl", "pd_buffer_size": 2**31, "pd_buffer_device": "cuda"}
SENDER = {**COMMON, "pd_role": "sender", "pd_proxy_host": "10.0.0.1", "pd_proxy_port": 7500}
RECEIVER = {
    **COMMON,
    "pd_role": "receiver",
    "pd_peer_host": "10.0.0.1",
    "pd_peer_init_port": [7300],
    "pd_peer_alloc_port": [7400],
}
CONSUMER = Transfer("LMCacheConnectorV1", "kv_consumer")
PRODUCER = Transfer("LMCacheConnectorV1", "kv_producer")


def read(
    folder: Path, config: dict[str, Any], transfer: Transfer, release: str = "0.5.6", *flags: str, **env: str
) -> LMCache:
    path = folder / "lmcache.yaml"
    path.write_text(json.dumps(config))
    environ = {"LMCACHE_CONFIG_FILE": str(path), "PYTHONHASHSEED": "0", **env}
    parameters = parse_parameters(json.dumps({"lmcache_version": release, "bytes_per_token": 73_728}))
    return read_lmcache(environ, parse_arguments(["serve", "m", *flags], "0.32.0"), transfer, parameters)


REFUSED = [
    ("pd_role missing", {"pd_role": None}, "0.5.6", "pd_role must be sender or receiver"),
    ("the other role", {"pd_role": "sender"}, "0.5.6", "does not go with kv_role kv_consumer"),
    ("no channel", {"transfer_channel": None}, "0.5.6", "transfer_channel must be nixl"),
    ("no buffer", {"pd_buffer_size": None}, "0.5.6", "pd_buffer_size is not set"),
    ("buffer as text, old", {"pd_buffer_size": "1GB"}, "0.3.10", "ValueError: pd_buffer_size"),
    ("buffer as text, new", {"pd_buffer_size": "1GB"}, "0.5.6", "pd_buffer_size is not set"),
    ("no multiple, old", {"pd_buffer_size": 2**31}, "0.3.10", "is not a multiple of the chunk size 18874368"),
    ("under one chunk", {"pd_buffer_size": CHUNK_BYTES - 1}, "0.5.6", "smaller than one chunk"),
    ("cpu buffer, old", {"pd_buffer_device": "cpu", "pd_buffer_size": CHUNK_BYTES}, "0.3.10", "must be cuda"),
    ("no device", {"pd_buffer_device": None}, "0.5.6", "pd_buffer_device must be cuda or cpu"),
    ("p2p", {"enable_p2p": True}, "0.5.6", "exclude each other"),
    ("remote, old", {"remote_url": "redis://x", "pd_buffer_size": CHUNK_BYTES}, "0.4.1", "remote_url"),
    ("too small for a prompt", {"pd_max_prefill_len": 99_999}, "0.5.6", "holds 28928 tokens"),
    ("no init port", {"pd_peer_init_port": None}, "0.5.6", "pd_peer_init_port must be set"),
    ("no peer host", {"pd_peer_host": None}, "0.5.6", "pd_peer_host must be set"),
]


@pytest.mark.parametrize(
    ("change", "release", "message"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_a_receiver_that_lmcache_would_not_start_is_refused(
    tmp_path: Path, change: dict[str, Any], release: str, message: str
) -> None:
    with pytest.raises(StartError, match=message):
        read(tmp_path, {**RECEIVER, **change}, CONSUMER, release)


def test_one_port_for_two_ranks_ends_in_an_index_error(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="IndexError: list index out of range: rank 1"):
        read(tmp_path, RECEIVER, CONSUMER, "0.5.6", "--tensor-parallel-size", "2")
    two = {**RECEIVER, "pd_peer_init_port": [7300, 7301], "pd_peer_alloc_port": [7400, 7401]}
    assert read(tmp_path, two, CONSUMER, "0.5.6", "--tensor-parallel-size", "2").ranks == 2


def test_a_sender_needs_the_proxy(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="pd_proxy_host and pd_proxy_port"):
        read(tmp_path, {**SENDER, "pd_proxy_port": None}, PRODUCER)


def test_a_newer_lmcache_rounds_the_buffer_down_to_whole_chunks(tmp_path: Path) -> None:
    assert read(tmp_path, RECEIVER, CONSUMER, "0.4.3").slots == 2**31 // CHUNK_BYTES == 113
    exact = {**RECEIVER, "pd_buffer_size": 113 * CHUNK_BYTES}
    assert read(tmp_path, exact, CONSUMER, "0.3.10").slots == 113


def test_the_environment_wins_over_the_file_and_the_connector_over_both(tmp_path: Path) -> None:
    env = {"LMCACHE_PD_PEER_INIT_PORT": "1, 2", "LMCACHE_CHUNK_SIZE": "64", "LMCACHE_LOCAL_CPU": "1"}
    extra = Transfer("LMCacheConnectorV1", "kv_consumer", extra={"lmcache.chunk_size": 32})
    values = read(tmp_path, RECEIVER, extra, **env).values
    assert (values["pd_peer_init_port"], values["chunk_size"], values["local_cpu"]) == ([1, 2], 32, True)


def test_unknown_keys_and_pd_off_bring_warnings_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        config = read(tmp_path, {"enable_xpyd": True, "nixl_role": "sender"}, PRODUCER)
    assert not config.pd
    assert {"Unknown configuration key: enable_xpyd", "Unknown configuration key: nixl_role"} <= set(
        caplog.messages
    )


@pytest.mark.parametrize(
    ("change", "release", "partial"),
    [
        ({}, "0.3.10", True),
        ({"save_unfull_chunk": False}, "0.3.10", False),
        ({"enable_async_loading": True}, "0.3.10", False),
        ({"save_unfull_chunk": False}, "0.5.6", True),
    ],
)
def test_the_last_partial_chunk_travels_or_not(
    tmp_path: Path, change: dict[str, Any], release: str, partial: bool
) -> None:
    config = {**RECEIVER, "pd_buffer_size": CHUNK_BYTES, **change}
    assert read(tmp_path, config, CONSUMER, release).partial_chunks is partial


def test_keys_agree_only_with_the_same_model_ranks_dtype_seed_and_chunk_size(tmp_path: Path) -> None:
    def keys(*flags: str, **env: str) -> set[str]:
        config = {**RECEIVER, "pd_peer_init_port": [1, 2], "pd_peer_alloc_port": [3, 4]}
        space = read(tmp_path, config, CONSUMER, "0.5.6", *flags, **env).keys
        return {space.key(0, chunk) for chunk in space.chunks(range(300), partial=True)}

    same = keys()
    assert keys() == same
    others = [
        keys("-tp", "2"),
        keys("--dtype", "float16"),
        keys(PYTHONHASHSEED="1"),
        keys(PYTHONHASHSEED="random"),
    ]
    others.append(keys(LMCACHE_PRE_CACHING_HASH_ALGORITHM="sha256_cbor"))
    others.append(keys(LMCACHE_CHUNK_SIZE="128"))
    assert all(same.isdisjoint(other) for other in others)


@pytest.mark.parametrize(
    "argv",
    [
        ["serve", "m", "--not-a-flag"],
        ["serve", "m", "--max-num-seqs", "0"],
        ["serve", "m", "--kv-transfer-config", "{a:b}"],
        ["serve"],
        ["bench", "m"],
        [],
    ],
)
def test_wrong_arguments_end_with_code_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(argv, "0.32.0")
    assert ended.value.code == 2


def test_flags_come_and_go_with_versions_and_take_underscores() -> None:
    found = parse_arguments(["serve", "m", "--disable-log-requests", "--max_model_len=64"], "0.11.0")
    assert found.max_model_len == 64
    with pytest.raises(SystemExit):
        parse_arguments(["serve", "m", "--disable-log-requests"], "0.33.0")


def test_values_that_do_not_go_together_are_refused() -> None:
    def check(*flags: str, **environ: str) -> None:
        check_arguments(parse_arguments(["serve", "m", *flags], "0.32.0"), environ, 200_000)

    check("-tp", "2", CUDA_VISIBLE_DEVICES="4,5")
    for flags, environ in (
        (("--max-num-batched-tokens", "8", "--max-num-seqs", "9"), {}),
        (("--max-model-len", "200001"), {}),
        (("-tp", "2"), {"CUDA_VISIBLE_DEVICES": "4"}),
    ):
        with pytest.raises(StartError, match="ValueError"):
            check(*flags, **environ)


@pytest.mark.parametrize(
    ("transfer", "message"),
    [
        ({"kv_connector": "LMCacheConnectorV1"}, "kv_role must be one of"),
        ({"kv_connector": "MadeUpConnector", "kv_role": "kv_both"}, "unsupported connector"),
        (
            {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_rolle": "x"},
            "unexpected key 'kv_rolle'",
        ),
        (
            {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_load_failure_policy": "x"},
            "fail or recompute",
        ),
    ],
)
def test_a_transfer_that_vllm_does_not_know_is_refused(transfer: dict[str, Any], message: str) -> None:
    with pytest.raises(StartError, match=message):
        parse_transfer(transfer, "0.32.0")


def test_the_failure_policy_is_refused_by_versions_that_do_not_have_it() -> None:
    given = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
    assert parse_transfer(given, "0.25.0").recompute_on_failure
    assert not parse_transfer(given, "0.26.0").recompute_on_failure
    with pytest.raises(StartError, match="unexpected key 'kv_load_failure_policy'"):
        parse_transfer({**given, "kv_load_failure_policy": "fail"}, "0.25.0")


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"itl": 5}', '{"itl_ms": "5"}', '{"itl_ms": -1}', '{"jitter": 2}']
)
def test_wrong_parameters_end_with_code_1(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert main(["serve", "m"], {"PDCTL_SIMULATOR": text}) == 1
    assert "PDCTL_SIMULATOR" in caplog.text


def test_versions_compare_as_numbers() -> None:
    assert version("0.3.10.post1") == (0, 3, 10) < version("0.4.3") < version("0.32.0+cpu")


def test_the_page_names_every_parameter_and_every_fault() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    for entry in (*dataclasses.fields(Parameters), *dataclasses.fields(Faults)):
        assert f"`{entry.name}" in page, entry.name
