"""Sound specs in which every field stands once: what `pdctl explain` shows as an example."""

from __future__ import annotations

LMCACHE = """\
cluster: chat
ssh: {user: ubuntu, port: 2222, key: ~/.ssh/id_ed25519, jump: "me@bastion:22", config: ssh_config,
      known_hosts: known_hosts, connection: ssh, become: true}
hosts:
  - name: gpu01
    address: gpu01.example.net
    private_address: 10.0.0.11
    os: ubuntu-22.04
    interface: ib0
    network: {gbit: 400, kind: ib}
    gpus: {count: 2, model: H100-SXM-80GB, memory_gib: 80, pci: ["0000:1b:00.0", "0000:43:00.0"]}
    nics: [{name: mlx5_0, port: 1, gpus: [0, 1], numa: 0, cpus: "0-47,96-143", pci: "0000:1e:00.0"}]
    labels: {rack: a}
    ssh: {user: root}
  - {name: gpu02, address: 192.0.2.12, private_address: 10.0.0.12, gpus: 8, network: {gbit: 400, kind: ib}}
offline: true
stack:
  base: article-2025
  driver: 580.95.05-0ubuntu0.22.04.2
  driver_package: nvidia-driver-580-server-open
  kernel: 6.8.0-64-generic
  kernel_headers: linux-headers-generic-hwe-22.04
  fabricmanager: 580.95.05-0ubuntu0.22.04.2
  nvlsm: 2025.10.14-1
  cuda: 13.0.88-1
  doca_ofed: 3.0.0-058218
  ucx: "1.19.0"
  nixl: "0.6.0"
  nixl_commit: 3daa98705e129ab9d53b6290e2c62f572101a411
  lmcache: "0.3.10"
  vllm: "0.11.0"
  torch: "2.8.0"
  python: "3.12"
engine: {kind: vllm, device: cuda}
model:
  id: openai/gpt-oss-120b
  path: /models/gpt-oss-120b
  revision: main
  served_name: oss
  max_model_len: 131072
  dtype: bfloat16
  vocabulary: ./vocabulary
  kv: {layers: 36, kv_heads: 8, head_dim: 64, bytes_per_value: 2, mla: false}
serving:
  mode: disaggregated
  connector: lmcache
  prefillers:
    count: 1
    tensor_parallel: 2
    hosts: [gpu01]
    labels: {rack: a}
    gpu_memory_utilization: 0.8
    max_num_seqs: 1
    max_num_batched_tokens: 131072
    extra_args: [--seed, "1"]
    env: {VLLM_LOGGING_LEVEL: DEBUG}
  decoders:
    tensor_parallel: 2
    placement:
      - host: gpu02
        gpus: [6, 7]
        ports: {http: 7200, init: [7300, 7301], alloc: [7400, 7401]}
  proxy: {host: gpu01, ports: {http: 9100, notification: 7500, metrics: 9101}}
  ports: {prefiller: 7100, decoder: 7200, server: 7200, init: 7300, alloc: 7400, side_channel: 5600,
          internal_api: 6000, engine: 20000}
  lmcache: {chunk_size: 256, buffer_bytes: 9663676416, prefiller_buffer_bytes: 9663676416, hash_seed: "0"}
  rollout: {canary: 1, max_unavailable: 1, drain_timeout_s: 60, allow_reboot: false, reboot_timeout_s: 1800}
  load_timeout_s: 1800
secrets:
  HF_TOKEN: {from_env: HF_TOKEN}
  VLLM_API_KEY: {from_file: secrets/key.txt}
slo: {ttft_ms: 2000, tpot_ms: 30, itl_p99_ms: 100, e2el_ms: 60000, attainment: 0.9}
bench: {input_len: 8192, output_len: 1024, concurrency: 16, num_prompts: 160, seed: 1}
apt:
  lock_timeout_s: 1200
  fetch_timeout_s: 3600
  repositories:
    - name: ubuntu
      uri: http://mirror.example.net/ubuntu
      suites: [jammy-updates]
      components: [main, restricted]
      key: /usr/share/keyrings/ubuntu-archive-keyring.gpg
      os: [ubuntu-22.04]
generations: {keep: 3}
suppress:
  - {rule: USE005, reason: NIXL is built from source by hand on these hosts}
"""
NIXL = """\
cluster: chat
hosts: [{name: gpu01, address: 10.0.0.11, gpus: 8}]
model: {id: openai/gpt-oss-120b}
serving:
  connector: nixl
  prefillers: {placement: [{host: gpu01, gpus: [0], ports: {http: 7100, side_channel: [5600]}}]}
  decoders:
    count: 2
    hosts: [gpu01]
    labels: {}
    gpu_memory_utilization: 0.9
    max_num_seqs: 64
    max_num_batched_tokens: 8192
    extra_args: [--seed, "1"]
    env: {VLLM_LOGGING_LEVEL: DEBUG}
"""
AGGREGATED = """\
cluster: chat
hosts: [{name: gpu01, address: 10.0.0.11, gpus: 8, labels: {rack: a}}]
model: {id: openai/gpt-oss-120b}
serving:
  mode: aggregated
  instances:
    count: 1
    tensor_parallel: 4
    hosts: [gpu01]
    labels: {rack: a}
    gpu_memory_utilization: 0.9
    max_num_seqs: 64
    max_num_batched_tokens: 8192
    extra_args: [--seed, "1"]
    env: {VLLM_LOGGING_LEVEL: DEBUG}
"""
SIMULATOR = """\
cluster: lab
hosts: [{name: host1, address: 10.0.0.11}]
engine:
  kind: simulator
  simulator:
    {prefill_tokens_per_s: 20000, itl_ms: 5, kv_gib_per_s: 10, start_s: 0, stale_peers: false, stack: false}
model: {id: pdctl/tiny}
serving:
  mode: aggregated
  instances: {placement: [{host: host1, ports: {http: 7200}}]}
"""
EXAMPLES = (LMCACHE, NIXL, AGGREGATED, SIMULATOR)
