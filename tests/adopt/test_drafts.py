"""A hand-made deployment, changed in one thing at a time: what the draft says, and what it says of it."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.adopt.deployment import read_deployment
from pdctl.adopt.draft import Draft, draft
from pdctl.adopt.note import Kind
from pdctl.adopt.observed import Facts, Process, Seen
from pdctl.adopt.write import draft_text
from pdctl.errors import HostError
from pdctl.spec.load import parse
from pdctl.topology import resolve
from pdctl.topology.model import Role, Topology
from tests.adopt.deployed import process, seen
from tests.adopt.handmade import FRONT, RECEIVER, SENDER, decoder, front, host, prefiller


def drafted(*hosts: Seen, **more: Any) -> Draft:
    """Whatever is in it, what comes out is a valid file."""
    found = draft(hosts or [host()], **more)
    assert found.problems == ()
    assert parse(draft_text(found), "cluster.yaml")
    return found


def told(found: Draft, kind: Kind) -> str:
    return "\n".join(f"{n.where}: {n.text} [{n.original}]" for n in found.notes if n.kind is kind)


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


CONTRADICTIONS: list[tuple[str, list[Process], str]] = [
    ("chunk size", [prefiller(), decoder(text=RECEIVER + "chunk_size: 128\n")], "chunk_size differs: 256"),
    ("hash seed", [prefiller(environment={"PYTHONHASHSEED": "1"}), decoder()], "PYTHONHASHSEED differs: 1"),
    ("model", [prefiller(model="openai/gpt-oss-20b"), decoder()], "the model argument differs"),
    ("dtype", [prefiller("--dtype bfloat16"), decoder()], "--dtype differs: bfloat16"),
    ("KV dtype", [prefiller("--kv-cache-dtype fp8"), decoder()], "--kv-cache-dtype differs"),
    ("length", [prefiller("--max-model-len 8k"), decoder("--max-model-len 8000")], "--max-model-len differs"),
    ("width", [prefiller("-tp 2"), decoder()], "with the lmcache connector they must be equal"),
    (
        "old names",
        [prefiller(text=SENDER.replace("pd_role", "nixl_role")), decoder()],
        "LMCache 0.3.10 ignores",
    ),
    ("PD off", [prefiller(text="chunk_size: 256\n"), decoder()], "enable_pd is not on"),
    ("wrong side", [prefiller(text=SENDER.replace("sender", "receiver")), decoder()], "pd_role does not go"),
    ("prefixes", [prefiller(), decoder("--enable-prefix-caching")], "caches prefixes of its own"),
    ("port list", [prefiller("-tp 2"), decoder("-tp 2")], "pd_peer_init_port lists 1 ports"),
    (
        "stray port",
        [prefiller(), decoder(), front(FRONT.replace("7300", "7301"))],
        "the proxy tells prefillers",
    ),
    (
        "no such engine",
        [prefiller(), decoder(), front(FRONT.replace("7100", "7101"))],
        "no such engine was found",
    ),
    (
        "notices",
        [prefiller(text=SENDER.replace("7500", "7501")), decoder(), front()],
        "the proxy listens on 7500",
    ),
    (
        "swapped",
        [prefiller(), decoder(), front(FRONT.replace("7100", "7200"))],
        "for a prefiller; its own settings",
    ),
    (
        "two on a port",
        [prefiller(), decoder(), decoder(pid=14, unit="other.service")],
        "listens on port 7200 like",
    ),
    (
        "one port list",
        [prefiller(), decoder(), decoder("--port 7201", pid=14, unit="d2.service")],
        "are also another engine's",
    ),
    (
        "unequal twins",
        [prefiller(), decoder(), decoder("--port 7201 --seed 3", pid=14, unit="d2.service")],
        "a role has one setting",
    ),
]


@pytest.mark.parametrize(
    ("running", "said"), [c[1:] for c in CONTRADICTIONS], ids=[c[0] for c in CONTRADICTIONS]
)
def test_a_contradiction_is_told_and_the_draft_is_valid(running: list[Process], said: str) -> None:
    found = drafted(host(*running))
    assert said in told(found, Kind.CONTRADICTION)
    assert said in draft_text(found)


LEFT: list[tuple[str, list[Process], Kind, str]] = [
    ("pipeline", [prefiller("-pp 2"), decoder()], Kind.LEFT_OUT, "tensor parallelism only [-pp 2]"),
    (
        "TLS",
        [prefiller("--ssl-keyfile k"), decoder()],
        Kind.LEFT_OUT,
        "plain HTTP to the engines [--ssl-keyfile k]",
    ),
    (
        "buffer",
        [prefiller(), decoder(text=RECEIVER.replace("4831838208", "1073741824"))],
        Kind.LEFT_OUT,
        "LMCache needs a whole number [1073741824]",
    ),
    (
        "CPU tier",
        [prefiller(text=SENDER + "local_disk: /d\n"), decoder()],
        Kind.LEFT_OUT,
        'keeps no other tier [local_disk: "/d"]',
    ),
    (
        "tier size",
        [prefiller(text=SENDER + "local_cpu: true\n"), decoder()],
        Kind.DIFFERENT,
        "local_cpu is true now",
    ),
    (
        "password",
        [prefiller(text=SENDER + "remote_url: r://***@h\n"), decoder()],
        Kind.SECRET,
        "[remote_url]",
    ),
    ("path", [prefiller(environment={"PYTHONPATH": "/x"}), decoder()], Kind.LEFT_OUT, "[PYTHONPATH=/x]"),
    ("unread", [prefiller(rest=("PATH", "MY_FLAG")), decoder()], Kind.LEFT_OUT, "were not read; add those"),
    ("secret flag", [prefiller("--new-config ***"), decoder()], Kind.SECRET, "[--new-config]"),
    ("container", [prefiller(container=True), decoder()], Kind.DIFFERENT, "runs in a container"),
    (
        "one GPU",
        [prefiller(), decoder(environment={"CUDA_VISIBLE_DEVICES": "0"})],
        Kind.DIFFERENT,
        "shares GPUs 0",
    ),
    ("listen", [prefiller("--host 0.0.0.0"), decoder()], Kind.DIFFERENT, "on 10.0.0.1 with pdctl"),
    ("no proxy", [prefiller(), decoder()], Kind.GUESS, "no proxy was found"),
    (
        "cache server",
        [prefiller(), decoder(), process(["lmcache", "server"], kind="cache")],
        Kind.LEFT_OUT,
        "a cache server of LMCache",
    ),
    (
        "server",
        [prefiller(), decoder(), process(["vllm", "serve", "openai/gpt-oss-120b"], pid=9)],
        Kind.LEFT_OUT,
        "a cluster has one mode",
    ),
    (
        "other model",
        [prefiller(), decoder(), process(["vllm", "serve", "org/other", "--port", "9"], pid=9)],
        Kind.LEFT_OUT,
        "serves another model",
    ),
]


@pytest.mark.parametrize(("running", "kind", "said"), [c[1:] for c in LEFT], ids=[c[0] for c in LEFT])
def test_what_has_no_counterpart_is_named_with_its_words(
    running: list[Process], kind: Kind, said: str
) -> None:
    assert said in told(drafted(host(*running)), kind)


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
