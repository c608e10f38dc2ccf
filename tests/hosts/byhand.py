"""A PD deployment as somebody set it up by hand on two lab hosts: units, a bare process, a proxy."""

from __future__ import annotations

import json
from typing import Any

from pdctl.desired.runtime import locked_runtime
from pdctl.lab import Lab
from tests.hosts.plays import inside

ROOT = "/opt/hand"
SITE = f"{ROOT}/venv/lib/python3.11/site-packages"
PYTHON = f"{ROOT}/venv/bin/python"
SECRETS = {
    "HF_TOKEN": "hf_HandMadeToken0123456789abcdefghijkl",
    "VLLM_API_KEY": "vk-short",
    "WANDB_API_KEY": "plain words of a secret",
    "flag": "key-on-the-command-line",
    "url": "redis-pass-word",
    "proxy": "sk-proxy-0123456789abcdefghijklmnopqrstuv",
}
P, D = "198.18.0.10", "198.18.0.11"
SENDER = f"""\
enable_pd: true
transfer_channel: nixl
pd_role: sender
pd_proxy_host: {P}
pd_proxy_port: 7600
pd_buffer_size: 33554432
pd_buffer_device: cpu
nixl_backends: [UCX]
chunk_size: 32
local_cpu: false
max_local_cpu_size: 0
remote_url: "redis://:{SECRETS["url"]}@{P}:6379"
"""
RECEIVER = f"""\
enable_pd: true
transfer_channel: nixl
pd_role: receiver
pd_peer_host: {D}
pd_peer_init_port: 7310
pd_peer_alloc_port: 7410
pd_buffer_size: 33554432
pd_buffer_device: cpu
nixl_backends: [UCX]
chunk_size: 32
"""
# Old and new names of the second decoder's keys, by variables alone.
VARIABLES = {
    "LMCACHE_ENABLE_PD": "True",
    "LMCACHE_TRANSFER_CHANNEL": "nixl",
    "LMCACHE_PD_ROLE": "receiver",
    "LMCACHE_PD_PEER_HOST": D,
    "LMCACHE_PD_PEER_INIT_PORT": "7311",
    "LMCACHE_PD_PEER_ALLOC_PORT": "7411",
    "LMCACHE_PD_BUFFER_SIZE": "33554432",
    "LMCACHE_PD_BUFFER_DEVICE": "cpu",
    "LMCACHE_CHUNK_SIZE": "64",
    "PYTHONHASHSEED": "0",
    "NCCL_DEBUG": "WARN",
}
# Stands in for LMCache's sample proxy: the same flags, and it listens.
PROXY = """\
import signal, socket, sys
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
for port in (flags["--port"], flags["--proxy-port"]):
    listener = socket.socket()
    listener.bind(("0.0.0.0", int(port)))
    listener.listen()
    globals()["keep" + port] = listener
signal.pause()
"""
FRONT = (
    f"--host {P} --port 9200 --prefiller-host {P} --prefiller-port 8100 --num-prefillers 1"
    f" --decoder-host {D} --decoder-port 8200 --num-decoders 2"
    f" --decoder-init-port 7310 --decoder-alloc-port 7410 --proxy-host {P} --proxy-port 7600"
)


def set_up(lab: Lab) -> None:
    """Install, start, and wait until both hosts' engines answer."""
    for host in ("h1", "h2"):
        _install(lab, host)
    _write(lab, "h1", f"{ROOT}/sender.yaml", SENDER)
    _write(lab, "h1", f"{ROOT}/disagg_proxy_server.py", PROXY)
    _write(lab, "h1", f"{ROOT}/keys.env", f"VLLM_API_KEY={SECRETS['VLLM_API_KEY']}\n")
    transfer = json.dumps(_transfer("kv_producer", "producer1")).replace('"', '\\\\"')
    command = (
        f"cd {ROOT} && {PYTHON} -m pdctl_simulator serve pdctl/tiny --served-model-name tiny --host 0.0.0.0"
        f" --port 8100 --max-model-len 2048 --enforce-eager --max_num_seqs=16 --seed 7"
        f' --kv-transfer-config "{transfer}"'
    )
    # A shell that stays: the engine is its child.
    _unit(
        lab,
        "h1",
        "vllm-prefill",
        f"/bin/bash -c '{command}; true'",
        f"EnvironmentFile={ROOT}/keys.env",
        f"Environment=PYTHONHASHSEED=0 LMCACHE_CONFIG_FILE={ROOT}/sender.yaml CUDA_VISIBLE_DEVICES=0",
        f'Environment=HF_TOKEN={SECRETS["HF_TOKEN"]} "WANDB_API_KEY={SECRETS["WANDB_API_KEY"]}" SITE_NAME=x',
    )
    _unit(
        lab,
        "h1",
        "pd-proxy",
        f"/usr/bin/python3 disagg_proxy_server.py {FRONT}",
        f"WorkingDirectory={ROOT}",
        f"Environment=OPENAI_API_KEY={SECRETS['proxy']}",
    )
    _write(lab, "h2", f"{ROOT}/receiver.yaml", RECEIVER)
    _unit(
        lab,
        "h2",
        "decode-1",
        f"{PYTHON} -m pdctl_simulator serve pdctl/tiny --served-model-name=tiny --port=8200"
        f" --no-enable-prefix-caching --max-model-len=2048 --kv-transfer-config"
        f" '{json.dumps(_transfer('kv_consumer', 'consumer1'))}'",
        f"WorkingDirectory={ROOT}",
        "Environment=PYTHONHASHSEED=0 LMCACHE_CONFIG_FILE=receiver.yaml NCCL_DEBUG=WARN",
    )
    _bare(lab)
    for host, port in (("h1", 8100), ("h2", 8200), ("h2", 8201)):
        inside(lab, host, f"for i in $(seq 100); do {_asks(port)} && exit; sleep 0.2; done; exit 1")


def _bare(lab: Lab) -> None:
    """The second decoder: started in a login of `ops`, and left there, as from tmux."""
    words = (
        f"{PYTHON} -m pdctl_simulator serve pdctl/tiny --served-model-name tiny --port 8201"
        f" --max-model-len 2048 --no-enable-prefix-caching --api-key {SECRETS['flag']} --kv-transfer-config"
        f" '{json.dumps(_transfer('kv_consumer', 'consumer2'))}'"
    )
    exports = "\n".join(f"export {name}={value}" for name, value in VARIABLES.items())
    _write(
        lab, "h2", f"{ROOT}/decode-2.sh", f"{exports}\nexport HF_TOKEN={SECRETS['HF_TOKEN']}\nexec {words}\n"
    )
    inside(lab, "h2", f"setsid -f su ops -c 'nohup sh {ROOT}/decode-2.sh' >/tmp/decode-2.log 2>&1 </dev/null")


def _transfer(role: str, name: str) -> dict[str, Any]:
    extra = {"discard_partial_chunks": False, "lmcache_rpc_port": name}
    return {"kv_connector": "LMCacheConnectorV1", "kv_role": role, "kv_connector_extra_config": extra}


def _install(lab: Lab, host: str) -> None:
    """A virtual environment in the plain sense: wheels unpacked beside a link to Python."""
    wheels = " ".join(
        f"{name.replace('-', '_')}-{version}-*.whl"
        for name, _, version in (w.partition("==") for w in locked_runtime("simulator", "3.11").wheels)
    )
    inside(
        lab,
        host,
        f"mkdir -p {SITE} {ROOT}/venv/bin && cd /opt/pdctl/bundle/wheels && for w in {wheels}; do"
        ' case "$w" in *cp310*|*cp312*|*cp39*) continue;; esac;'
        f" python3 -m zipfile -e $w {SITE} || exit 1; done;"
        f" ln -s /usr/bin/python3.11 {PYTHON};"
        f" printf 'home = /usr/bin\\nversion = 3.11.2\\n' > {ROOT}/venv/pyvenv.cfg",
    )


def _unit(lab: Lab, host: str, name: str, command: str, *lines: str) -> None:
    body = "\n".join(["[Service]", f"ExecStart={command}", *lines, "[Install]", "WantedBy=multi-user.target"])
    _write(lab, host, f"/etc/systemd/system/{name}.service", body + "\n")
    inside(lab, host, f"systemctl daemon-reload && systemctl enable -q --now {name}")


def _write(lab: Lab, host: str, path: str, text: str) -> None:
    inside(lab, host, f"cat > {path} <<'END OF FILE'\n{text}END OF FILE\n")


def _asks(port: int) -> str:
    url = f"http://127.0.0.1:{port}/health"
    return f"python3 -c 'import urllib.request as u; u.urlopen(\"{url}\")' 2>/dev/null"
