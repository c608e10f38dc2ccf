"""The commented cluster.yaml that `pdctl init` writes."""

from __future__ import annotations

STARTER = """\
# One cluster: a model served by prefillers (prompt -> KV) and decoders (KV -> tokens) behind a proxy.
# Check it with `pdctl validate`, see what would change with `pdctl diff`, make it so with `pdctl apply`.
# Editors complete keys after `pdctl schema > cluster.schema.json`, if the file begins with this line:
#   # yaml-language-server: $schema=cluster.schema.json
cluster: chat

# How the hosts are reached; what is left out comes from your ~/.ssh/config.
ssh: {user: ubuntu}

# The machines. `private_address` is where KV moves, if that is another network.
hosts:
  - name: gpu01
    address: 192.0.2.11
    gpus: {count: 8, model: H100-SXM-80GB}

# Version pins, driver to vLLM: a shipped set. Single pins go beside it, always in quotes:
# stack: {base: article-2025, lmcache: "0.3.10"}
stack: article-2025

model:
  id: openai/gpt-oss-120b
  # path: /models/gpt-oss-120b     # a folder on the hosts, if the weights are there already

serving:
  mode: disaggregated              # or aggregated, with `instances` in place of the two roles
  connector: lmcache               # or nixl
  prefillers: {count: 1, tensor_parallel: 2}
  decoders: {count: 1, tensor_parallel: 2}

# Secrets are named here and read on this machine while `pdctl apply` runs; values never stand in the file.
# secrets:
#   HF_TOKEN: {from_env: HF_TOKEN}

# What `pdctl bench` judges by.
slo: {ttft_ms: 2000, tpot_ms: 30}
"""


def starter() -> str:
    """The starter file."""
    return STARTER
