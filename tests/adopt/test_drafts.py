"""A hand-made deployment, changed in one thing at a time: what the draft says, and what it says of it."""

from __future__ import annotations

import pytest

from pdctl.adopt.deployment import read_deployment
from pdctl.adopt.draft import Draft, draft
from pdctl.adopt.note import Kind
from pdctl.adopt.observed import Facts, Process
from pdctl.adopt.write import draft_text
from pdctl.errors import HostError
from pdctl.spec.load import parse
from pdctl.topology import resolve
from pdctl.topology.model import Role, Topology
from tests.adopt.deployed import process, seen
from tests.adopt.handmade import FRONT, RECEIVER, SENDER, decoder, drafted, front, host, prefiller, told


def topology(found: Draft) -> Topology:
    return resolve(parse(draft_text(found), "cluster.yaml"))


def test_the_plain_example_needs_few_lines() -> None:
    found = drafted()
    assert found.values["serving"] == {
        "mode": "disaggregated",
        "connector": "lmcache",
        "prefillers": {"count": 1},
        "decoders": {"count": 1},
    }
    assert found.values["stack"] == {
        "vllm": "0.11.0",
        "lmcache": "0.3.10",
        "nixl": "0.6.0",
        "torch": "2.8.0",
        "python": "3.12",
    }
    assert told(found, Kind.CONTRADICTION) == ""


def test_a_shipped_stack_is_named_only_if_its_packages_are_installed_too() -> None:
    packages = {
        "nvidia-driver-580-server-open": "580.95.05-0ubuntu0.22.04.2",
        "cuda-drivers-fabricmanager-580": "580.95.05-0ubuntu0.22.04.2",
        "cuda-nvcc-13-0": "13.0.88-1",
        "cuda-cudart-dev-13-0": "13.0.88-1",
        "doca-ofed": "3.0.0-058218",
    }
    assert drafted(host(packages=packages)).values["stack"] == "article-2025"
    found = drafted(host(packages=packages | {"doca-ofed": "3.1.0"}))
    assert found.values["stack"]["vllm"] == "0.11.0"
    assert "nvidia-driver-580-server-open: is installed and not pinned" in told(found, Kind.DIFFERENT)


def test_words_and_variables_that_count_are_kept_and_those_of_pdctl_are_not() -> None:
    variables = {"NCCL_DEBUG": "INFO", "UCX_NET_DEVICES": "mlx5_0:1", "HF_HOME": "/data/hf"}
    words = "--max-num-seqs 64 --gpu-memory-utilization=0.9 --trust-remote-code --seed=-1 -O3 --swap_space 8"
    found = drafted(host(prefiller(), decoder(words, environment=variables), front()))
    pool = found.values["serving"]["decoders"]
    assert pool["max_num_seqs"] == 64 and pool["gpu_memory_utilization"] == 0.9
    assert pool["extra_args"] == ["--trust-remote-code", "--seed=-1", "-O3", "--swap_space", "8"]
    assert pool["env"] == {"NCCL_DEBUG": "INFO", "UCX_NET_DEVICES": "mlx5_0:1", "HF_HOME": "/data/hf"}
    assert "extra_args" not in found.values["serving"]["prefillers"]


def test_secrets_become_references_wherever_they_were_seen() -> None:
    bare = {"unit": "", "pid": 40, "secrets": ("HF_TOKEN", "GITHUB_TOKEN")}
    found = drafted(host(prefiller("--api-key ***", secrets=("MY_API_KEY",)), decoder(**bare), front()))
    names = ("HF_TOKEN", "MY_API_KEY", "VLLM_API_KEY")
    assert found.values["secrets"] == {name: {"from_env": name} for name in names}
    assert "[GITHUB_TOKEN]" in told(found, Kind.LEFT_OUT), "a login's own, no engine's"


def test_two_hosts_get_the_addresses_that_their_engines_tell() -> None:
    one = host(
        prefiller(), front(), name="a", address="192.0.2.1", addresses=(("e", "192.0.2.1"), ("i", "10.0.0.1"))
    )
    receiver = RECEIVER.replace("10.0.0.1", "10.0.0.2")
    two = host(
        decoder(text=receiver), name="b", address="gpu-b", addresses=(("e", "192.0.2.2"), ("i", "10.0.0.2"))
    )
    found = drafted(one, two)
    rows = {row["name"]: row for row in found.values["hosts"]}
    assert rows["a"]["private_address"] == "10.0.0.1" and rows["b"]["private_address"] == "10.0.0.2"
    assert rows["b"]["address"] == "gpu-b"
    assert [i.host for i in topology(found).instances] == ["a", "b"]


def test_kv_both_is_told_apart_by_the_proxy_then_by_names_then_guessed() -> None:
    transfer = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'

    def engine(port: int, unit: str = "") -> Process:
        words = ["vllm", "serve", "openai/gpt-oss-20b", "--port", str(port), "--kv-transfer-config", transfer]
        side = {"CUDA_VISIBLE_DEVICES": str(port % 10), "VLLM_NIXL_SIDE_CHANNEL_PORT": str(5600 + port % 10)}
        return process(words, pid=port, unit=unit, environment=side, versions={"vllm": "0.33.0"})

    line = (
        "python toy_proxy_server.py --prefiller-ports 8101 --decoder-ports 8100 --prefiller-hosts localhost"
    )
    by_proxy = seen(engine(8100), engine(8101), front(line + " --decoder-hosts localhost"))
    assert ports(drafted(by_proxy)) == {Role.PREFILLER: [8101], Role.DECODER: [8100]}
    by_name = seen(engine(8100, "decode.service"), engine(8101, "prefill.service"))
    assert ports(drafted(by_name)) == {Role.PREFILLER: [8101], Role.DECODER: [8100]}
    by_guess = drafted(seen(engine(8100), engine(8101)))
    assert ports(by_guess) == {Role.PREFILLER: [8100], Role.DECODER: [8101]}
    assert "nothing tells which side it plays" in told(by_guess, Kind.GUESS)


def ports(found: Draft) -> dict[Role, list[int]]:
    system = topology(found)
    return {role: [i.ports.http for i in system.of(role)] for role in (Role.PREFILLER, Role.DECODER)}


def test_a_folder_of_weights_and_an_unknown_model_bring_their_kv_shape() -> None:
    config = (
        '{"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 512}'
    )
    length = "--max-model-len 4096 --served-model-name own"
    text = {
        "SENDER": SENDER.replace("1207959552", "1048576000"),
        "RECEIVER": RECEIVER.replace("4831838208", "1048576000"),
    }
    both = [
        prefiller(length, text["SENDER"], model="/data/own-7b", models={"/data/own-7b": config}),
        decoder(length, text["RECEIVER"], model="/data/own-7b"),
    ]
    found = drafted(host(*both, front()))
    assert found.values["model"] == {
        "id": "own-7b",
        "path": "/data/own-7b",
        "served_name": "own",
        "max_model_len": 4096,
        "kv": {"layers": 4, "kv_heads": 2, "head_dim": 64},
    }
    assert found.values["serving"]["lmcache"]["buffer_bytes"] == 1048576000


def test_a_model_whose_shape_nobody_knows_leaves_the_draft_invalid_and_says_so() -> None:
    found = draft([host(prefiller(model="org/new"), decoder(model="org/new"), front())])
    assert found.problems and "NOT VALID YET: pdctl does not know `org/new`" in draft_text(found)


def test_units_that_do_not_run_are_told() -> None:
    found = drafted(host(stopped=(("vllm-decode-2.service", "failed"),)))
    assert "h1/vllm-decode-2.service: does not run (failed)" in told(found, Kind.LEFT_OUT)


def test_an_unknown_system_is_told() -> None:
    found = drafted(host(facts=Facts("h1", "rocky", "9.4")))
    assert "runs rocky-9.4" in told(found, Kind.LEFT_OUT)


def test_hosts_where_nothing_serves_are_an_error() -> None:
    with pytest.raises(HostError, match="no engine runs there"):
        draft([seen()])
    with pytest.raises(HostError, match="no engine serves `x`"):
        draft([host()], model="x")


def test_text_from_hosts_cannot_leave_its_comment() -> None:
    evil = prefiller(rest=("A\nsecrets:\n  X: 1",), unit="v\u2028x.service")
    found = drafted(host(evil, decoder(), front()))
    assert "secrets" not in found.values and "\nsecrets:" not in draft_text(found)


def test_engines_are_numbered_as_their_units_are() -> None:
    some = [
        decoder(f"--port {port}", unit=f"decode-{n}.service", pid=n) for n, port in ((1, 7209), (2, 7201))
    ]
    found = read_deployment([host(prefiller(), *some, front())])
    assert [engine.port for engine in found.of(Role.DECODER)] == [7209, 7201]


def test_a_proxy_of_other_engines_is_none_of_ours() -> None:
    stray = front(FRONT.replace("10.0.0.1", "10.9.9.9").replace("7100", "1").replace("7200", "2"))
    found = drafted(host(prefiller(), decoder(), stray))
    assert found.deployment.front is None and "another proxy" in told(found, Kind.LEFT_OUT)
    unnamed = front(FRONT.replace("er-host 10.0.0.1", "er-host alias"))
    assert drafted(host(prefiller(), decoder(), unnamed)).deployment.front is not None


def test_what_runs_overrules_the_estimate_that_it_cannot_fit() -> None:
    found = drafted()  # gpt-oss-120b with its whole context on one H100 a side
    reason = "it was running so when this file was written"
    assert found.values["suppress"] == [{"rule": "MEM001", "reason": reason}] and not found.problems
    assert "it runs, so MEM001 is suppressed" in told(found, Kind.GUESS)
