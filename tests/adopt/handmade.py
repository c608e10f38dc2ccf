"""A hand-made deployment as in LMCache's example: one host, one prefiller, one decoder, the sample proxy."""

from __future__ import annotations

import json
from typing import Any

from pdctl.adopt.draft import Draft, draft
from pdctl.adopt.note import Kind
from pdctl.adopt.observed import Process, Seen
from pdctl.adopt.write import draft_text
from pdctl.spec.load import parse
from tests.adopt.deployed import process, seen

SENDER = """\
enable_pd: true
transfer_channel: "nixl"
pd_role: "sender"
pd_proxy_host: "10.0.0.1"
pd_proxy_port: 7500
pd_buffer_size: 1207959552
pd_buffer_device: "cuda"
nixl_backends: [UCX]
"""
RECEIVER = """\
enable_pd: true
transfer_channel: "nixl"
pd_role: "receiver"
pd_peer_host: "10.0.0.1"
pd_peer_init_port: 7300
pd_peer_alloc_port: 7400
pd_buffer_size: 4831838208
pd_buffer_device: "cuda"
nixl_backends: [UCX]
"""
VERSIONS = {"vllm": "0.11.0", "lmcache": "0.3.10", "nixl": "0.6.0", "torch": "2.8.0", "python": "3.12"}
MODEL = "openai/gpt-oss-120b"
FRONT = (
    "python3 disagg_proxy_server.py --host 10.0.0.1 --port 9100"
    " --prefiller-host 10.0.0.1 --prefiller-port 7100 --num-prefillers 1"
    " --decoder-host 10.0.0.1 --decoder-port 7200 --decoder-init-port 7300"
    " --decoder-alloc-port 7400 --num-decoders 1 --proxy-host 10.0.0.1 --proxy-port 7500"
)


def prefiller(words: str = "", text: str = SENDER, **more: Any) -> Process:
    return _engine("kv_producer", 7100, words, text, {"pid": 11, "unit": "vllm-prefill.service"} | more)


def decoder(words: str = "", text: str = RECEIVER, **more: Any) -> Process:
    return _engine("kv_consumer", 7200, words, text, {"pid": 12, "unit": "vllm-decode.service"} | more)


def front(line: str = FRONT) -> Process:
    return process(line.split(), kind="proxy", pid=13, unit="pd-proxy.service")


def host(*processes: Process, **answer: Any) -> Seen:
    return seen(*(processes or (prefiller(), decoder(), front())), **answer)


def drafted(*hosts: Seen, **more: Any) -> Draft:
    """Whatever is in it, what comes out is a valid file."""
    found = draft(hosts or [host()], **more)
    assert found.problems == ()
    assert parse(draft_text(found), "cluster.yaml")
    return found


def told(found: Draft, kind: Kind) -> str:
    return "\n".join(f"{n.where}: {n.text} [{n.original}]" for n in found.notes if n.kind is kind)


def _engine(role: str, port: int, words: str, text: str, more: dict[str, Any]) -> Process:
    model = more.pop("model", MODEL)
    extra: dict[str, Any] = {"discard_partial_chunks": False, "lmcache_rpc_port": f"{role}1"}
    extra |= {"skip_last_n_tokens": 1} if role == "kv_consumer" else {}
    transfer = {"kv_connector": "LMCacheConnectorV1", "kv_role": role, "kv_connector_extra_config": extra}
    line = f"/opt/venv/bin/python3 /opt/venv/bin/vllm serve {model} --port {port} --enforce-eager"
    argv = [*line.split(), "--no-enable-prefix-caching", "--kv-transfer-config", json.dumps(transfer)]
    environment = {
        "LMCACHE_CONFIG_FILE": "/etc/lmcache.yaml",
        "PYTHONHASHSEED": "0",
        "CUDA_VISIBLE_DEVICES": "0" if role == "kv_producer" else "7",
        "UCX_TLS": "cuda_ipc,cuda_copy,tcp",
        **more.pop("environment", {}),
    }
    files = {"/etc/lmcache.yaml": text, **more.pop("files", {})}
    return process([*argv, *words.split()], environment=environment, files=files, versions=VERSIONS, **more)
