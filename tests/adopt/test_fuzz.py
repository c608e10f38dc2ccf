"""Whatever words, variables and files hosts hold: a draft or a plain error, never a crash."""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pdctl.adopt.draft import draft
from pdctl.adopt.observed import Answer, Facts, Gpu, Process, Seen
from pdctl.adopt.report import report
from pdctl.adopt.write import draft_text
from pdctl.errors import PdctlError
from pdctl.spec.load import parse
from pdctl.topology import resolve

ODD = st.sampled_from(
    ["", "0", "1", "2", "-1", "8k", "a b", "é\u2028", "{}", "[1", "***", "²", "7200", "99999", "null"]
)
FLAGS = st.sampled_from(
    [
        *(
            "--port",
            "-tp",
            "-pp",
            "--max-num-seqs",
            "--max-model-len",
            "--dtype",
            "--host",
            "--served-model-name",
        ),
        *(
            "--kv-transfer-config",
            "--kv-transfer-config.kv_role",
            "--kv-transfer-config.a.b+",
            "--config",
            "-O",
        ),
        *(
            "--gpu-memory-utilization",
            "--api-key",
            "--seed",
            "--enforce-eager",
            "--no-x",
            "--",
            "-",
            "--=",
            "--a.=",
        ),
        *(
            "--prefiller-ports",
            "--decoder-init-port",
            "--num-prefillers",
            "--prefill",
            "--decode",
            "--revision",
        ),
    ]
)
TRANSFERS = st.builds(
    lambda name, role, extra: json.dumps(
        {"kv_connector": name, "kv_role": role, "kv_connector_extra_config": extra}
    ),
    st.sampled_from(["LMCacheConnectorV1", "NixlConnector", "MultiConnector", "Other", 3, None]),
    st.sampled_from(["kv_producer", "kv_consumer", "kv_both", None, []]),
    st.sampled_from(
        [{}, None, [], {"connectors": [3, {"kv_connector": "NixlConnector"}]}, {"lmcache.chunk_size": []}]
    ),
)
VARIABLES = st.dictionaries(
    st.sampled_from(
        [
            *("CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED", "LMCACHE_CONFIG_FILE", "LMCACHE_PD_PEER_INIT_PORT"),
            *("LMCACHE_PD_BUFFER_SIZE", "LMCACHE_EXTRA_CONFIG", "VLLM_PORT", "VLLM_NIXL_SIDE_CHANNEL_PORT"),
            *("PDCTL_SIMULATOR", "VLLM_ENGINE_READY_TIMEOUT_S", "VLLM_HOST_IP", "NCCL_DEBUG", "HF_HOME"),
        ]
    ),
    ODD,
    max_size=5,
)
FILES = st.sampled_from(
    [
        *(
            "",
            "a: [",
            "- 1\n",
            "enable_pd: true\npd_role: {}\n",
            "pd_peer_init_port: [a, 7300]\nchunk_size: -1\n",
        ),
        *("nixl_role: sender\npd_proxy_port: x\npd_buffer_size: 1e9\n", "model: [1]\nport: {a: 1}\n1: 2\n"),
        '{"listen": {"host": 1}, "prefillers": [{"url": "x"}]}',
    ]
)
MODELS = st.sampled_from(["openai/gpt-oss-20b", "/m/x", "org/y", "pdctl/tiny", "", "a b"])


@st.composite
def processes(draw: st.DrawFn) -> Process:
    kind = draw(st.sampled_from(["engine", "engine", "engine", "proxy", "cache"]))
    program = {
        "engine": ["vllm", "serve", draw(MODELS)],
        "proxy": ["python", "x_proxy.py"],
        "cache": ["lmcache"],
    }
    words = draw(st.lists(st.one_of(FLAGS, ODD), max_size=8))
    if kind == "engine":
        words += draw(st.sampled_from([[], ["--kv-transfer-config", draw(TRANSFERS)]]))
    if draw(st.booleans()):
        program["engine"] = ["python", "-m", "pdctl_simulator", *program["engine"][1:]]
    text = draw(FILES)
    return Process(
        pid=draw(st.integers(1, 99)),
        kind=kind,
        argv=tuple(program[kind] + words),
        environment=draw(VARIABLES),
        secrets=tuple(draw(st.sets(st.sampled_from(["HF_TOKEN", "LMCACHE_X_SECRET", "A B"])))),
        unit=draw(st.sampled_from(["", "d-1.service", "pdctl-chat-decoder-0.service", "x\n.service"])),
        versions=draw(st.sampled_from([{}, {"vllm": "0.11.0", "python": "3.12"}, {"vllm": "odd version"}])),
        files=dict.fromkeys(("", "1", "8k", "a b"), text),
        models={"org/y": draw(st.sampled_from(["", "3", '{"num_hidden_layers": 2, "hidden_size": "x"}']))},
    )


@st.composite
def hosts(draw: st.DrawFn) -> list[Seen]:
    rows = []
    for name in ["h1", "h2"][: draw(st.integers(1, 2))]:
        gpus = tuple(Gpu(i, f"GPU-{i}", "NVIDIA L40S") for i in range(draw(st.integers(0, 2))))
        facts: dict[str, Any] = {"hostname": draw(ODD), "os_id": draw(ODD), "os_version": "12", "gpus": gpus}
        running = tuple(draw(st.lists(processes(), max_size=4)))
        rows.append(
            Seen(
                name,
                draw(st.sampled_from(["10.0.0.1", "x y", name])),
                Answer(Facts(**facts), processes=running),
            )
        )
    return rows


@settings(max_examples=1500 if "PDCTL_SOAK" in os.environ else 25)
@given(seen=hosts())
def test_anything_makes_a_draft_or_a_plain_error(seen: list[Seen]) -> None:
    try:
        found = draft(seen)
        text = draft_text(found)
    except PdctlError:
        return
    json.dumps(report(found, "x"), allow_nan=False)
    if found.problems:
        assert "NOT VALID YET" in text
    else:
        assert resolve(parse(text, "cluster.yaml"))
