"""vLLM's plugin hook -> the two changes, made when an engine creates its KV connector."""

from __future__ import annotations

import functools
import os
from typing import Any

SWITCH = "PDCTL_CPU_CONNECTOR"


def register() -> None:
    """Called by vLLM, possibly several times in one process."""
    if os.environ.get(SWITCH) != "1":
        return
    _before_creating_a_connector()


def _before_creating_a_connector() -> None:
    """Wrap vLLM's connector factory.

    Not earlier, because vLLM's worker walks all loaded modules while it registers its kernels
    (vllm/triton_utils/dispatcher.py, 0.32.0) and ends in an AttributeError if LMCache's imports are there.
    """
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    original = KVConnectorFactory.create_connector.__func__
    if getattr(original, "by_pdctl", False):
        return

    @functools.wraps(original)
    def create_connector(cls: type, config: Any, *args: Any, **kwargs: Any) -> Any:
        _install(config.kv_transfer_config.kv_connector)
        return original(cls, config, *args, **kwargs)

    create_connector.by_pdctl = True  # type: ignore[attr-defined]
    KVConnectorFactory.create_connector = classmethod(create_connector)


def _install(connector: str) -> None:
    # vLLM sets this itself, but only if NIXL is not imported yet (vllm/distributed/nixl_utils.py, 0.32.0).
    os.environ.setdefault("UCX_RCACHE_MAX_UNRELEASED", "1024")
    from . import progress

    progress.install()
    if connector == "LMCacheConnectorV1":
        from . import lmcache_connector

        lmcache_connector.install()
