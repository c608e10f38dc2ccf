"""A program for an environment's own Python: imports what a service would, and writes down what it got."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import json
import os
import sys
import traceback
from typing import Any

UCP = "libucp"
WIRES = ("UCX_TLS", "UCX_NET_DEVICES")
Found = dict[str, Any]


def main(asked: Found, path: str) -> None:
    """Whatever a library prints goes where it goes; the answer has a file of its own."""
    found: Found = {"failed": "", "modules": {}, "versions": {}, "cuda": "", "ucp": [], "ucx": ""}
    try:
        for names in asked["imports"]:
            module = first_of(names)
            found["modules"][module.__name__] = getattr(module, "__file__", None) or ""
        if "torch" in sys.modules:
            found["cuda"] = getattr(sys.modules["torch"].version, "cuda", None) or "none"
        if asked.get("agent"):
            transfer()
    except BaseException as error:  # noqa: BLE001 - also what exits: the reason is the answer
        found["failed"] = last_words(error)
    found["versions"] = {name: version_of(name) for name in asked["versions"]}
    found["ucp"] = mapped(UCP)
    if len(found["ucp"]) == 1:
        found["ucx"] = ucx_version(found["ucp"][0])
    with open(path, "w", encoding="utf-8") as handle:
        json.dump(found, handle)


def first_of(names: list[str]) -> Any:
    """The module by the first of its names that there is: releases have renamed some."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    return importlib.import_module(names[-1])


def transfer() -> None:
    """NIXL loads its UCX only when an agent is made (nixl _api.py, nixl_agent).

    Of any transport: those that the service is told to use may be up only after a reboot that is to come.
    """
    for name in WIRES:
        os.environ.pop(name, None)
    api = importlib.import_module("nixl._api")
    api.nixl_agent("pdctl-proof", api.nixl_agent_config(backends=["UCX"]))


def mapped(name: str) -> list[str]:
    """Paths of this process's libraries whose file begins with `name`."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as handle:
        words = [line.rstrip("\n").split(None, 5) for line in handle]
    paths = {row[5] for row in words if len(row) == 6}
    return sorted(path for path in paths if path.rsplit("/", 1)[-1].startswith((name + ".", name + "-")))


def ucx_version(path: str) -> str:
    try:
        said = ctypes.CDLL(path).ucp_get_version_string
    except (OSError, AttributeError):
        return ""
    said.restype = ctypes.c_char_p
    return str((said() or b"").decode("ascii", "replace"))


def version_of(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def last_words(error: BaseException) -> str:
    return traceback.format_exception_only(type(error), error)[-1].strip().splitlines()[-1]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
