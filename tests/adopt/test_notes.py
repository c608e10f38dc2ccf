"""Contradictions, and what has no counterpart: told by name, in a draft that is valid all the same."""

from __future__ import annotations

import pytest

from pdctl.adopt.note import Kind
from pdctl.adopt.observed import Process
from pdctl.adopt.write import draft_text
from tests.adopt.deployed import process
from tests.adopt.handmade import FRONT, RECEIVER, SENDER, decoder, drafted, front, host, prefiller, told

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
    ("GPUs", [prefiller(gpus=("GPU-3a3b",)), decoder()], "uses GPUs [3] by nvidia-smi, and [0]"),
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
