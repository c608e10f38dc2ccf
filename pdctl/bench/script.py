"""Topology -> a script that drives `vllm bench serve` with the cluster's names, folders and addresses."""

from __future__ import annotations

from pdctl.bench.presets import quick_load
from pdctl.desired.engine import ENTRY, downloads, model_argument
from pdctl.desired.layout import DOWNLOADS
from pdctl.desired.render import render
from pdctl.desired.runtime import engine_runtime
from pdctl.topology.model import Topology

NAME = "vllm-bench-serve.sh"
SEED = 0  # vLLM's own default


def bench_script(topology: Topology) -> bytes | None:
    """None for the simulator, whose model has no tokenizer that vLLM could load.

    vLLM counts tokens with `--tokenizer`, which would else be looked for under the served name; what it sends
    goes to the proxy's completions, the one endpoint that every connector takes (docs/proxy.md).
    """
    spec = topology.spec
    if spec.engine.kind == "simulator":
        return None
    return render(
        "bench/vllm-bench-serve.sh.j2",
        cluster=topology.cluster,
        model=topology.served_name,
        tokenizer=model_argument(topology),
        base_url=topology.proxy.url,
        offline=spec.offline,
        cache=DOWNLOADS if downloads(topology) else "",
        load=quick_load(spec),
        seed=SEED if spec.bench.seed is None else spec.bench.seed,
        python=f"{engine_runtime(topology, topology.instances[0].host).path}/bin/python",
        entry=ENTRY["vllm"],
    )
