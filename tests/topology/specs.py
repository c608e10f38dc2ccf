"""Short ways to say a cluster in tests."""

from __future__ import annotations

from typing import Any

from pdctl.spec.model import Cluster


def cluster(**changes: Any) -> Cluster:
    """One 8-GPU host, 1 prefiller and 1 decoder; `changes` replace top-level keys."""
    plain: dict[str, Any] = {
        "cluster": "chat",
        "hosts": [{"name": "gpu01", "address": "10.0.0.11", "gpus": 8}],
        "model": {"id": "openai/gpt-oss-120b"},
        "serving": {"prefillers": {"count": 1}, "decoders": {"count": 1}},
    }
    return Cluster.model_validate(plain | changes)


def hosts(count: int, gpus: int = 8) -> list[dict[str, Any]]:
    return [{"name": f"gpu{i:02}", "address": f"10.0.{i}.1", "gpus": gpus} for i in range(1, count + 1)]


def serving(
    prefillers: int, decoders: int, tensor_parallel: int, connector: str = "lmcache"
) -> dict[str, Any]:
    return {
        "connector": connector,
        "prefillers": {"count": prefillers, "tensor_parallel": tensor_parallel},
        "decoders": {"count": decoders, "tensor_parallel": tensor_parallel},
    }
