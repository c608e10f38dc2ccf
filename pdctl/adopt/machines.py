"""Deployment -> `ssh`, `hosts`, `engine`, `stack` and `secrets` of the draft."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pdctl.adopt.deployment import Deployment
from pdctl.adopt.engine import Engine
from pdctl.adopt.note import HOSTS, SECRETS, STACK, Kind, Note
from pdctl.adopt.observed import Seen
from pdctl.adopt.places import is_local, is_number, most_common, owner
from pdctl.knowledge.adoption import ENGINE_SECRETS, NVIDIA_NAMES, SECRET_FLAGS
from pdctl.knowledge.drivers import cuda_packages, fabric_manager_package
from pdctl.knowledge.gpus import GPUS
from pdctl.knowledge.stacks import STACKS
from pdctl.knowledge.systems import DEFAULT_SYSTEM, SYSTEM_PYTHON, system_name
from pdctl.knowledge.versions import DEFAULT_PINS

PIN_ORDER = ("vllm", "lmcache", "nixl", "torch", "python")


def kind_and_device(deployment: Deployment) -> tuple[str, str]:
    first = deployment.engines[0]
    if first.simulator is not None:
        return "simulator", "cuda"
    return "vllm", "cpu" if first.cpu else "cuda"


def engine_values(deployment: Deployment) -> Any:
    """Nothing for vLLM on GPUs, which is the default."""
    kind, device = kind_and_device(deployment)
    if kind == "vllm":
        return {"kind": "vllm", "device": "cpu"} if device == "cpu" else None
    given = deployment.engines[0].simulator or {}
    fields = ("prefill_tokens_per_s", "itl_ms", "kv_gib_per_s", "start_s", "stale_peers")
    defaults = {"prefill_tokens_per_s": 20000.0, "itl_ms": 5.0, "kv_gib_per_s": 10.0, "start_s": 0.0}
    timing = {f: given[f] for f in fields if f in given and given[f] != defaults.get(f, False)}
    return {"kind": "simulator", "simulator": timing} if timing else "simulator"


def host_values(deployment: Deployment) -> tuple[list[dict[str, Any]], list[Note]]:
    rows: list[dict[str, Any]] = []
    notes: list[Note] = []
    for seen in deployment.hosts:
        row: dict[str, Any] = {"name": seen.name}
        if seen.address != seen.name:
            row["address"] = seen.address
        private, more = _private(deployment, seen)
        notes += more
        if private and private != seen.address:
            row["private_address"] = private
        system, more = _system(deployment, seen)
        notes += more
        row |= ({"os": system} if system else {}) | _interface(deployment, seen) | _gpus(deployment, seen)
        rows.append(row | dict(seen.given))
    return rows, notes


def ssh_values(hosts: Sequence[Seen]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What all hosts share, and whole overrides of those that differ."""
    shared = dict(hosts[0].ssh)
    return shared, {seen.name: dict(seen.ssh) for seen in hosts if dict(seen.ssh) != shared}


def _private(deployment: Deployment, seen: Seen) -> tuple[str | None, list[Note]]:
    """The address at which the others already talk to this host, if it is one of its own."""
    own = [address for _, address in seen.answer.addresses]
    told = [a for e in deployment.engines if e.host == seen.name for a in e.told_addresses]
    told += list(_from_peers(deployment, seen))
    numbers = [a for a in told if is_number(a) and not is_local(a) and (a in own or not own)]
    if found := most_common(numbers):
        return found, []
    if len(deployment.hosts) == 1 or is_number(seen.address) or not own:
        return None, []
    if len(own) == 1:
        return own[0], []
    text = f"no engine tells peers an address of this host; of {', '.join(own)} the first was taken"
    return own[0], [Note(Kind.GUESS, HOSTS, seen.name, text)]


def _from_peers(deployment: Deployment, seen: Seen) -> Iterator[str]:
    front = deployment.front
    if front is None:
        return
    addresses = [member.host for member in front.members]
    addresses += front.told if front.host == seen.name else ()
    addresses += [
        str(e.lmcache.get("pd_proxy_host") or "") for e in deployment.engines if front.host == seen.name
    ]
    for address in addresses:
        if is_number(address) and owner(deployment.hosts, address, front.host) == seen.name:
            yield address


def _system(deployment: Deployment, seen: Seen) -> tuple[str | None, list[Note]]:
    """Only where it is not what pdctl takes for granted."""
    name = system_name(seen.answer.facts.os_id, seen.answer.facts.os_version)
    if name not in SYSTEM_PYTHON:
        known = ", ".join(SYSTEM_PYTHON)
        return None, [Note(Kind.LEFT_OUT, HOSTS, seen.name, f"runs {name}; pdctl knows {known}")]
    return (name if name != DEFAULT_SYSTEM[kind_and_device(deployment)] else None), []


def _interface(deployment: Deployment, seen: Seen) -> dict[str, str]:
    """Only the CPU engine is told one."""
    here = [e for e in deployment.engines if e.host == seen.name and e.cpu]
    named = most_common(n for e in here if (n := e.process.environment.get("GLOO_SOCKET_IFNAME")))
    return {"interface": named} if named and named in (name for name, _ in seen.answer.addresses) else {}


def _gpus(deployment: Deployment, seen: Seen) -> dict[str, Any]:
    gpus = seen.answer.facts.gpus
    used = [gpu + 1 for e in deployment.engines if e.host == seen.name for gpu in e.gpus]
    if kind_and_device(deployment) != ("vllm", "cuda"):
        used = []
    count = max([len(gpus), *used])
    models = {NVIDIA_NAMES.get(gpu.name) for gpu in gpus}
    model = models.pop() if len(models) == 1 else None
    if not count:
        return {}
    return {"gpus": {"count": count, "model": model} if model else count}


def stack_values(deployment: Deployment) -> tuple[Any, list[Note]]:
    """A shipped set that says exactly what is installed, or single pins of what was found."""
    kind = kind_and_device(deployment)
    found = versions_of(deployment.engines)
    if kind == ("vllm", "cpu"):
        locked = DEFAULT_PINS[kind]
        return None, [
            Note(Kind.DIFFERENT, STACK, name, f"pdctl's CPU engine is locked to {locked[name]}", version)
            for name, version in found.items()
            if version != locked[name]
        ]
    if kind[0] == "simulator":
        return {n: v for n, v in found.items() if v != DEFAULT_PINS[kind].get(n) and n != "python"}, []
    notes = _packages_note(deployment)
    if "vllm" not in found:
        text = "its version was not found beside any engine; without a pin pdctl installs its default set"
        notes.append(Note(Kind.GUESS, STACK, "vllm", text))
    base = next((name for name, pins in STACKS.items() if _is_installed(deployment, pins, found)), None)
    return (base, []) if base else ({n: found[n] for n in PIN_ORDER if n in found}, notes)


def versions_of(engines: Sequence[Engine]) -> dict[str, str]:
    """The most common version of each package; builds (`+cu128`) are no versions of their own."""
    found = {}
    for name in PIN_ORDER:
        given = [engine.versions[name].split("+")[0] for engine in engines if name in engine.versions]
        if common := most_common(given):
            found[name] = common
    return found


def _is_installed(deployment: Deployment, pins: Mapping[str, str], found: Mapping[str, str]) -> bool:
    """Every pin that can be seen is what is there."""
    wheels = [name for name in PIN_ORDER if name in pins and name in found]
    if "vllm" not in wheels or any(pins[name] != found[name] for name in wheels):
        return False
    busy = {engine.host for engine in deployment.engines}
    return all(_packages_fit(seen, pins) for seen in deployment.hosts if seen.name in busy)


def _packages_fit(seen: Seen, pins: Mapping[str, str]) -> bool:
    models = {NVIDIA_NAMES.get(gpu.name, "") for gpu in seen.answer.facts.gpus}
    switched = any(GPUS[model].nvswitch for model in models if model in GPUS)
    wanted = {pins.get("driver_package", ""): pins.get("driver"), "doca-ofed": pins.get("doca_ofed")}
    fabric, cuda = pins.get("fabricmanager"), pins.get("cuda")
    wanted |= {fabric_manager_package(fabric): fabric} if fabric and switched else {}
    wanted |= dict.fromkeys(cuda_packages(cuda), cuda) if cuda else {}
    return all(seen.answer.packages.get(name) == version for name, version in wanted.items() if version)


def _packages_note(deployment: Deployment) -> list[Note]:
    """Drivers stay unpinned, so that nothing on the host has to change; the reader may pin them."""
    found: dict[str, str] = {}
    for seen in deployment.hosts:
        found |= {n: v for n, v in seen.answer.packages.items() if n.startswith("nvidia-driver-")}
    text = "is installed and not pinned by this draft; add `driver_package` and `driver` to have it held"
    return [Note(Kind.DIFFERENT, STACK, name, text, version) for name, version in sorted(found.items())]


def secret_values(deployment: Deployment) -> tuple[dict[str, dict[str, str]], list[Note]]:
    """References to variables of the controller, by the names that the engines have them under."""
    holders: dict[str, list[str]] = {}
    notes: list[Note] = []
    for engine in deployment.engines:
        for name in engine.process.secrets:
            if name in ENGINE_SECRETS or (
                engine.process.unit and not name.startswith(("LMCACHE_", "PDCTL_"))
            ):
                holders.setdefault(name, []).append(engine.label)
            else:
                text = "a secret variable that is no engine's; it is not in the draft"
                notes.append(Note(Kind.LEFT_OUT, SECRETS, engine.label, text, name))
        for flag, name in SECRET_FLAGS.items():
            if flag in engine.command.flags and name not in engine.process.secrets:
                holders.setdefault(name, []).append(f"{engine.label} (by --{flag})")
    for name, labels in holders.items():
        some = "" if len(labels) == len(deployment.engines) else "; pdctl gives it to every engine"
        text = f"its value stays out; set this variable here{some}"
        notes.append(Note(Kind.SECRET, SECRETS, ", ".join(labels), text, name))
    return {name: {"from_env": name} for name in sorted(holders)}, notes
