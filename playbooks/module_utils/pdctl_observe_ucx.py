"""Engines of this host -> what their own UCX offers them: as their user, with their variables."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping

from ansible.module_utils.pdctl_rows import Row

PATIENCE_S = 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TLS = "UCX_TLS"
# The nixl wheel brings its UCX without `ucx_info`, so that this asks the library itself: of the wheel, else
# the one that the loader finds (UCX, ucp/api/ucp.h: ucp_init_version, ucp_context_print_info; a mask of 1 is
# UCP_PARAM_FIELD_FEATURES, and 15 tag, remote memory and atomics).
PROGRAM = """
import ctypes, glob, sysconfig
inside = sorted(glob.glob(sysconfig.get_paths()["purelib"] + "/nixl*.libs/libucp*.so*"))
ucp, libc = ctypes.CDLL((inside or ["libucp.so.0"])[0], ctypes.RTLD_GLOBAL), ctypes.CDLL(None)
version = [ctypes.c_uint() for _ in range(3)]
ucp.ucp_get_version(*map(ctypes.byref, version))
parameters = (ctypes.c_uint64 * 128)(1, 15)
context = ctypes.c_void_p()
ucp.ucp_init_version.argtypes = [ctypes.c_uint] * 2 + [ctypes.c_void_p] * 3
print("UCX", ".".join(str(each.value) for each in version), "of the nixl wheel" if inside else "", flush=True)
if ucp.ucp_init_version(version[0], version[1], parameters, None, ctypes.byref(context)) == 0:
    out = ctypes.c_void_p.in_dll(libc, "stdout")
    ucp.ucp_context_print_info(context, out)
    libc.fflush(out)
"""
RESOURCE = re.compile(r"^#\s+resource \d+ .* -- (\w+)/(\S+)", re.MULTILINE)
TRANSPORT = re.compile(r"^#\s+(Transport|Device): +(\S+)", re.MULTILINE)
VERSION = re.compile(r"^(?:# Library version: (\S+)|(UCX [\d.]+.*))$", re.MULTILINE)
WARNING = re.compile(r"UCX +(?:WARN|ERROR) +(.*)")


def ucx_facts(asked: Mapping[str, Row]) -> Row:
    """`asked`: instance -> `python`, `user` and `env`. Those whose UCX gives no answer are left out."""
    found: Row = {}
    known: dict[tuple[str, ...], Row] = {}
    for instance, row in asked.items():
        key = (row["python"], row["user"], *(f"{name}={value}" for name, value in sorted(row["env"].items())))
        if key not in known:
            known[key] = _ucx(row)
        if known[key]:
            found[instance] = known[key]
    return found


def transports(text: str) -> dict[str, list[str]]:
    """{`rc_mlx5`: [`mlx5_0:1`]} of a context as UCX prints it, or of `ucx_info -d`."""
    found: dict[str, list[str]] = {}
    for name, device in RESOURCE.findall(text):
        found.setdefault(name, []).append(device)
    name = ""
    for kind, value in TRANSPORT.findall(text):
        if kind == "Transport":
            name = value
            found.setdefault(name, [])
        elif name and value not in found[name]:
            found[name].append(value)
    return found


def _ucx(row: Row) -> Row:
    """Twice: all that it has, and what it says of the list that the engine gives it."""
    env = {"PATH": PATH, **row["env"]}
    everything = {name: value for name, value in env.items() if name != TLS}
    command = [row["python"], "-c", PROGRAM]
    text = _said(row["user"], everything, command) if os.path.exists(row["python"]) else ""
    if not transports(text) and shutil.which("ucx_info", path=env["PATH"]):
        text = _said(row["user"], everything, ["ucx_info", "-v"])
        text += _said(row["user"], everything, ["ucx_info", "-d"])
        command = []
    offered = transports(text)
    if not offered:
        return {}
    named = VERSION.search(text)
    said = _said(row["user"], env, command) if command and TLS in env else ""
    return {
        "source": " ".join(filter(None, named.groups())) if named else "",
        "transports": offered,
        "warnings": WARNING.findall(said),
    }


def _said(user: str, env: Mapping[str, str], command: list[str]) -> str:
    """Nothing of what is missing, fails or hangs."""
    known = _exists(user) and os.geteuid() == 0
    words = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *command]
    try:
        done = subprocess.run(
            ["runuser", "-u", user, "--", *words] if known else words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
            check=False,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout.decode("utf-8", "replace")


def _exists(user: str) -> bool:
    try:
        return bool(pwd.getpwnam(user))
    except KeyError:
        return False
