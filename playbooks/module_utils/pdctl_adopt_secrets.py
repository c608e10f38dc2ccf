"""Words, variables and files of a process -> the same without secrets, before anything leaves the host."""

from __future__ import annotations

import os
import re
from typing import Any

HIDDEN = "***"
LOGIN = re.compile(r"(?<=://)[^/\s@\"']+@")  # user:password@ of a URL
HEADER = re.compile(r"(?i)\b(bearer|basic)\s+[^\s\"']+")
COUNT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?|true|false|null|None")
# Beginnings of variables that say how an engine or a proxy works; the values of others stay on the host.
TELLING = (
    *("VLLM_", "LMCACHE_", "NIXL_", "UCX_", "NCCL_", "GLOO_", "MOONCAKE_", "MC_", "RAY_", "FLASHINFER_"),
    *("CUDA_", "NVIDIA_", "TORCH", "PYTORCH_", "TRITON_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "MALLOC_"),
    *("HF_", "HUGGINGFACE_", "TRANSFORMERS_", "TOKENIZERS_", "SAFETENSORS_", "PYTHON", "LD_", "PROMETHEUS_"),
    *("PDCTL_", "XDG_CACHE_HOME", "VIRTUAL_ENV", "DO_NOT_TRACK", "CLIENT_BOUND"),
)


class Secrecy:
    """What a secret looks like: `names` end the names of what holds one, `tokens` are values of issuers."""

    def __init__(self, names: str, tokens: str) -> None:
        self._name = re.compile(r"(?:^|[_.])(?:" + names + r")$")
        self._token = re.compile(tokens)
        # `"api_key": "x"` of JSON, `api_key: x` of YAML, `API_KEY=x` of a shell.
        self._pair = re.compile(
            r"(?i)([\"']?[\w.-]*(?:" + names + r")[\"']?\s*[:=]\s*)(\"[^\"]*\"|'[^']*'|[^\s,}\]\"']+)"
        )

    def is_name(self, name: str) -> bool:
        return bool(self._name.search(name.lstrip("-").replace("-", "_").upper()))

    def text(self, text: str) -> str:
        """Any text, with what looks like a secret replaced."""
        for pattern, mask in ((self._token, HIDDEN), (LOGIN, HIDDEN + "@"), (HEADER, r"\1 " + HIDDEN)):
            text = pattern.sub(mask, text)
        return self._pair.sub(_hidden, text)

    def words(self, words: list[str]) -> list[str]:
        """A command line: `--api-key x y`, `--api-key=x`, and secrets inside of words."""
        found = []
        after = False  # a flag that takes secrets
        for word in words:
            if word.startswith("-"):
                name, equals, _ = word.partition("=")
                after = self.is_name(name)
                found.append(name + "=" + HIDDEN if after and equals else self.text(word))
                after = after and not equals
            else:
                found.append(HIDDEN if after else self.text(word))
        return found

    def variables(self, environment: dict[str, str]) -> dict[str, Any]:
        """`values` that may be told, names of `secrets`, and names of the `rest`."""
        values, secrets, rest = {}, [], []
        for name, value in sorted(environment.items()):
            if self.is_name(name) or self._token.search(value):
                secrets.append(name)
            elif name.startswith(TELLING):
                values[name] = self.text(value)
            else:
                rest.append(name)
        return {"values": values, "secrets": secrets, "rest": rest}


def _hidden(pair: re.Match[str]) -> str:
    """A number is a secret only where it is a password: `bytes_per_token: 512` is none."""
    number = COUNT.fullmatch(pair.group(2)) and not re.search("(?i)passw", pair.group(1))
    return pair.group(0) if number else pair.group(1) + HIDDEN


def file_text(path: str, root: str, secrecy: Secrecy, limit: int = 1 << 20) -> str | None:
    """A text file as the process whose root folder is `root` sees it; None when it cannot be read."""
    try:
        with open(os.path.join(root, path.lstrip("/")), encoding="utf-8", errors="replace") as handle:
            return secrecy.text(handle.read(limit))
    except OSError:
        return None
