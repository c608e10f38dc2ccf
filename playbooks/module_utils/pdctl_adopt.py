"""request -> answer: the serving processes of one host and what they were started from, only read."""

from __future__ import annotations

import array
import contextlib
import fcntl
import glob
import os
import re
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.pdctl_adopt_processes import Process, families, open_ports, unit_of
from ansible.module_utils.pdctl_adopt_runtimes import versions
from ansible.module_utils.pdctl_adopt_secrets import Secrecy, file_text
from ansible.module_utils.pdctl_observe_facts import GPU_PATIENCE_S, facts

SIOCGIFADDR = 0x8915  # linux/sockios.h
SERVING = re.compile(r"\bvllm\b|pdctl_simulator|pdctl-simulator|disagg\w*proxy|toy_proxy|vllm-router")
MODEL = re.compile(r"[\w.-]+/[\w.-]+")
PACKAGES = ("nvidia-driver-*", "nvidia-fabricmanager-*", "cuda-drivers-fabricmanager-*", "doca-ofed")
TOOLKIT = ("cuda-nvcc-*", "cuda-cudart-dev-*")


def look(request: dict[str, Any]) -> dict[str, Any]:
    """`names` and `tokens` of the request say what a secret looks like: none leaves this host."""
    secrecy = Secrecy(request["names"], request["tokens"])
    notes: list[str] = []
    used = gpu_users(notes)
    found = families()
    return {
        "facts": facts(notes),
        "addresses": addresses(),
        "packages": packages(),
        "processes": [_process(head, family, used, secrecy) for head, family in found],
        "stopped": stopped_units(),
        "notes": notes,
    }


def _process(head: Process, family: list[int], used: dict[int, str], secrecy: Secrecy) -> dict[str, Any]:
    environment = head.environment()
    told = secrecy.variables(environment)
    names = [environment[n] for n in ("LMCACHE_CONFIG_FILE",) if environment.get(n)]
    cwd, root = head.cwd(), head.folder + "/root"
    texts = {}
    for name in names + list(_named_files(head.argv)):
        text = file_text(os.path.join(cwd, name), root, secrecy)
        if text is not None:
            texts[name] = text
    return {
        "pid": head.pid,
        "kind": head.kind,
        "argv": secrecy.words(head.argv),
        "environment": told["values"],
        "secrets": told["secrets"],
        "rest": told["rest"],
        "unread": not os.access(head.folder + "/environ", os.R_OK) or not environment,
        "cwd": cwd,
        "user": head.user(),
        **unit_of(head.control_group()),
        "listens": open_ports(family),
        "gpus": sorted({used[pid] for pid in family if pid in used}),
        "versions": versions(head.argv, environment, head.folder),
        "files": texts,
        "models": dict(_model_configs(head.argv, environment, root)),
    }


def _named_files(argv: list[str]) -> Iterator[str]:
    """Files given as `--config PATH` or `--config=PATH`."""
    for word, following in zip(argv, [*argv[1:], ""]):
        if word == "--config" and following:
            yield following
        elif word.startswith("--config="):
            yield word.partition("=")[2]


def _model_configs(argv: list[str], environment: dict[str, str], root: str) -> Iterator[tuple[str, str]]:
    """(word, its config.json): a word may be a folder of weights, or a name in Hugging Face's cache."""
    home = environment.get("HF_HOME") or os.path.join(environment.get("HOME", "/root"), ".cache/huggingface")
    cache = environment.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    for word in (w.partition("=")[2] if w.startswith("--model=") else w for w in argv[1:]):
        patterns = []
        if word.startswith("/"):
            patterns = [glob.escape(root + word.rstrip("/")) + "/config.json"]
        elif MODEL.fullmatch(word):
            folder = glob.escape(root + os.path.join(cache, "models--" + word.replace("/", "--")))
            patterns = [folder + "/snapshots/*/config.json"]
        for path in [p for pattern in patterns for p in sorted(glob.glob(pattern))][-1:]:
            with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as handle:
                yield word, handle.read(1 << 18)


def addresses() -> list[list[str]]:
    """[interface, IPv4 address] of this host, loopback left out."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            asked = array.array("B", struct.pack("256s", name.encode()[:15]))
            try:
                fcntl.ioctl(probe.fileno(), SIOCGIFADDR, asked, True)
            except OSError:  # an interface without an IPv4 address
                continue
            address = socket.inet_ntoa(bytes(asked[20:24]))
            if not address.startswith("127."):
                found.append([name, address])
    return found


def packages() -> dict[str, str]:
    """{package: version} of the drivers and toolkits that are installed."""
    command = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${db:Status-Abbrev}\\n"]
    done = _run([*command, *PACKAGES, *TOOLKIT])
    rows = [line.split() for line in done.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 3 and row[2].startswith(("ii", "hi"))}


def gpu_users(notes: list[str]) -> dict[int, str]:
    """{pid: UUID of a GPU that it uses}."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    try:
        text = _run([tool, "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader"], GPU_PATIENCE_S)
    except subprocess.TimeoutExpired:
        notes.append(f"nvidia-smi: no answer within {GPU_PATIENCE_S} s")
        return {}
    rows = [line.split(",") for line in text.splitlines()]
    return {int(row[0]): row[1].strip() for row in rows if len(row) == 2 and row[0].strip().isdigit()}


def stopped_units(folder: str = "/etc/systemd/system") -> list[list[str]]:
    """[unit, state] of services that would start an engine or a proxy and do not run."""
    names = [os.path.basename(path) for path in sorted(glob.glob(folder + "/*.service")) if _starts_one(path)]
    if not names:
        return []
    shown = _run(["systemctl", "show", "--property", "ActiveState,SubState", "--", *names])
    blocks = [dict(line.partition("=")[::2] for line in b.splitlines()) for b in shown.strip().split("\n\n")]
    states = [(row.get("ActiveState", ""), row.get("SubState", "")) for row in blocks]
    return [[name, state[0]] for name, state in zip(names, states) if state != ("active", "running")]


def _starts_one(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            text = handle.read(1 << 16).replace("\\\n", " ")
    except OSError:
        return False
    return any(line.startswith("ExecStart=") and SERVING.search(line) for line in text.splitlines())


def _run(command: list[str], timeout: float = 60) -> str:
    """What the program prints; nothing where it is missing."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.decode("utf-8", "replace")
