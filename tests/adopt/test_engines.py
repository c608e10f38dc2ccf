"""What is read of one process: GPUs, role, LMCache's settings from file and variables, ports."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pdctl.adopt.engine import Engine, read_engine
from pdctl.adopt.front import Member, read_front
from pdctl.adopt.observed import Facts
from pdctl.topology.model import Role
from tests.adopt.deployed import process, seen

FILE = "/etc/lmcache.yaml"


def engine(line: str = "vllm serve M", files: dict[str, str] | None = None, **more: Any) -> Engine:
    transfer = more.pop("transfer", None)
    words = line.split() + (["--kv-transfer-config", json.dumps(transfer)] if transfer else [])
    one = process(words, files=files or {}, **more)
    return read_engine(seen(one), one)


def lmcache(role: str, **more: Any) -> dict[str, Any]:
    return {"kv_connector": "LMCacheConnectorV1", "kv_role": role} | more


@pytest.mark.parametrize(
    ("visible", "gpus", "foreign"),
    [
        ("0,1", (0, 1), ()),
        (" 2 , 3 ", (2, 3), ()),
        ("6,7,0", (6, 7), ()),
        ("GPU-3a3b,GPU-1a", (3, 1), ()),
        ("MIG-8f,1", (1,), ("MIG-8f",)),
        ("9,1", (1,), ("9",)),
        ("", (), ()),
        ("-1", (), ()),
        (None, (4, 5), ()),
    ],
)
def test_gpus_are_indexes_uuids_or_what_the_process_uses(
    visible: str | None, gpus: tuple[int, ...], foreign: tuple[str, ...]
) -> None:
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = engine("vllm serve M -tp 2", environment=variables, gpus=("GPU-5a5b", "GPU-4a4b"))
    assert (found.gpus, found.foreign_gpus) == (gpus, foreign)


def test_without_any_sign_the_first_gpus_are_used_and_without_nvidia_smi_indexes_count() -> None:
    assert engine("vllm serve M -tp 2").gpus == (0, 1)
    one = process(["vllm", "serve", "M"], environment={"CUDA_VISIBLE_DEVICES": "3"})
    assert read_engine(seen(one, facts=Facts("h1", "debian", "12")), one).gpus == (3,)


@pytest.mark.parametrize(
    ("transfer", "variables", "role", "connector"),
    [
        (None, {}, Role.SERVER, ""),
        (lmcache("kv_producer"), {}, Role.PREFILLER, "lmcache"),
        (lmcache("kv_consumer"), {}, Role.DECODER, "lmcache"),
        (lmcache("kv_both"), {"LMCACHE_PD_ROLE": "receiver"}, Role.DECODER, "lmcache"),
        (lmcache("kv_both"), {"LMCACHE_NIXL_ROLE": "sender"}, Role.PREFILLER, "lmcache"),
        (lmcache("kv_both"), {"LMCACHE_LOCAL_CPU": "True"}, Role.SERVER, "lmcache-tier"),
        ({"kv_connector": "NixlConnector", "kv_role": "kv_both"}, {}, None, "nixl"),
        ({"kv_connector": "NixlPushConnector", "kv_role": "kv_producer"}, {}, Role.PREFILLER, "nixl"),
        (
            {"kv_connector": "MooncakeConnector", "kv_role": "kv_consumer"},
            {},
            Role.DECODER,
            "MooncakeConnector",
        ),
        (
            {
                "kv_connector": "MultiConnector",
                "kv_role": "kv_consumer",
                "kv_connector_extra_config": {
                    "connectors": [
                        {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
                        {"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both"},
                    ]
                },
            },
            {},
            Role.DECODER,
            "nixl",
        ),
    ],
)
def test_the_role_comes_from_the_connector_or_from_lmcache(
    transfer: dict[str, Any] | None, variables: dict[str, str], role: Role | None, connector: str
) -> None:
    found = engine(transfer=transfer, environment=variables)
    assert (found.role, found.connector) == (role, connector)


KEYS: list[tuple[str, dict[str, str], dict[str, Any], dict[str, Any]]] = [
    ("chunk_size: 64\n", {}, {}, {"chunk_size": 64}),
    ("chunk_size: 64\n", {"LMCACHE_CHUNK_SIZE": "128"}, {}, {"chunk_size": "128"}),
    ("chunk_size: 64\n", {"LMCACHE_CHUNK_SIZE": "128"}, {"lmcache.chunk_size": 32}, {"chunk_size": 32}),
    ("", {"LMCACHE_PD_PEER_INIT_PORT": "7300,7301"}, {}, {"pd_peer_init_port": ["7300", "7301"]}),
    ("enable_pd: yes\npd_role: sender\n", {}, {}, {"enable_pd": True, "pd_role": "sender"}),
    ("enable_xpyd: true\nnixl_role: sender\n", {}, {}, {"enable_pd": True, "pd_role": "sender"}),
    ("nixl_proxy_port: 7500\npd_proxy_port: 7600\n", {}, {}, {"pd_proxy_port": 7600}),
    ("pd_proxy_port: 7600\nnixl_proxy_port: 7500\n", {}, {}, {"pd_proxy_port": 7600}),
    ("", {"LMCACHE_ENABLE_PD": "True", "LMCACHE_LOG_LEVEL": "INFO"}, {}, {"enable_pd": True}),
]


@pytest.mark.parametrize(("text", "variables", "extra", "keys"), KEYS)
def test_lmcache_takes_file_then_variables_then_the_connectors_settings_under_old_and_new_names(
    text: str, variables: dict[str, str], extra: dict[str, Any], keys: dict[str, Any]
) -> None:
    found = engine(
        transfer=lmcache("kv_producer", kv_connector_extra_config=extra),
        files={FILE: text},
        environment={"LMCACHE_CONFIG_FILE": FILE, **variables},
    )
    assert found.lmcache.keys == keys and found.lmcache.unread == ""


def test_a_configuration_file_that_is_not_there_is_told() -> None:
    assert engine(environment={"LMCACHE_CONFIG_FILE": "gone.yaml"}).lmcache.unread == "gone.yaml"


@pytest.mark.parametrize(
    ("value", "ports"),
    [("7300", (7300,)), ("[7300, 7301]", (7300, 7301)), ('"7300,7301"', (7300, 7301)), ("[a]", ())],
)
def test_ports_of_ranks_are_one_a_list_or_text(value: str, ports: tuple[int, ...]) -> None:
    files = {FILE: f"pd_peer_init_port: {value}\n"}
    found = engine(files=files, environment={"LMCACHE_CONFIG_FILE": FILE})
    assert found.lmcache.ports("pd_peer_init_port") == ports


@pytest.mark.parametrize(
    ("version", "variables", "ports"),
    [
        ("0.11.0", {}, (5557, 5558)),
        ("0.11.0", {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}, (5600, 5601)),
        ("0.33.0", {}, (5600,)),
        ("0.33.0+cu129", {"VLLM_NIXL_SIDE_CHANNEL_PORT": "6000"}, (6000,)),
    ],
)
def test_the_side_channel_is_one_port_or_one_per_rank(
    version: str, variables: dict[str, str], ports: tuple[int, ...]
) -> None:
    found = engine("vllm serve M -tp 2", environment=variables, versions={"vllm": version})
    assert found.side_channel == ports


P, D = Role.PREFILLER, Role.DECODER
FRONTS: list[tuple[str, int, int | None, list[Member]]] = [
    (
        "python disagg_proxy_server.py --host 0.0.0.0 --port 9100"
        " --prefiller-host 10.0.0.1 --prefiller-port 7100"
        " --num-prefillers 2 --decoder-host 10.0.0.2 --decoder-port 7200 --decoder-init-port 7300,7310"
        " --decoder-alloc-port=7400,7410 --num-decoders 2 --proxy-host 10.0.0.1 --proxy-port 7500",
        9100,
        7500,
        [
            Member(P, "10.0.0.1", 7100),
            Member(P, "10.0.0.1", 7101),
            Member(D, "10.0.0.2", 7200, (7300, 7310), (7400, 7410)),
            Member(D, "10.0.0.2", 7201, (7301, 7311), (7401, 7411)),
        ],
    ),
    (
        "python3 disagg_proxy_server.py --num-decoders 1",
        8000,
        8500,
        [Member(P, "localhost", 8100), Member(D, "localhost", 8200, (8300,), (8400,))],
    ),
    (
        "python toy_proxy_server.py --port 8192 --prefiller-hosts h1 h1 --prefiller-ports 8100 8101"
        " --decoder-hosts h2 --decoder-ports 8200",
        8192,
        None,
        [Member(P, "h1", 8100), Member(P, "h1", 8101), Member(D, "h2", 8200)],
    ),
    (
        "vllm-router --vllm-pd-disaggregation --prefill http://10.0.0.1:8100 --decode http://10.0.0.2:8200"
        " --decode http://[fd00::2]:8201 --port 30000",
        30000,
        None,
        [Member(P, "10.0.0.1", 8100), Member(D, "10.0.0.2", 8200), Member(D, "fd00::2", 8201)],
    ),
]


@pytest.mark.parametrize(("line", "port", "notification", "members"), FRONTS, ids=[f[0][:40] for f in FRONTS])
def test_a_proxy_says_whom_it_sends_to(
    line: str, port: int, notification: int | None, members: list[Member]
) -> None:
    one = process(line.split(), kind="proxy")
    front = read_front(seen(one), one)
    assert front is not None
    assert (front.port, front.notification, list(front.members)) == (port, notification, members)


@pytest.mark.parametrize(
    "line", ["python my_proxy.py --port 80", "python -m http_proxy", "vllm-router --port 1"]
)
def test_other_programs_that_are_called_proxy_are_none(line: str) -> None:
    one = process(line.split(), kind="proxy")
    assert read_front(seen(one), one) is None
