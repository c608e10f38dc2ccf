"""vLLM plugin for engines on CPU: the KV connector that LMCache lacks there, and a NIXL that sleeps if idle.

Loaded by vLLM in each of its processes (entry point group `vllm.general_plugins`). It does nothing unless
`PDCTL_CPU_CONNECTOR=1` is in the environment, so an installed wheel alone changes no engine.
"""

from .plugin import register

__all__ = ["register"]
