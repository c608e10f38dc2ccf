"""Units and what they are started from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pdctl.desired.engine import argv, environment, notes
from pdctl.desired.layout import (
    SERVICE_USER,
    cache_dir,
    config_dir,
    control_path,
    unit_name,
    unit_path,
)
from pdctl.desired.proxy import static_digest
from pdctl.desired.render import render
from pdctl.knowledge.gpus import FABRIC_S, GPUS
from pdctl.knowledge.needs import GPU_ENGINE_LIMITS
from pdctl.knowledge.ports import ranges
from pdctl.state import File, Resource, Unit, Venv
from pdctl.state.digest import content_digest, object_digest
from pdctl.topology.model import Instance, Near, Role, Topology
from pdctl.topology.placement import uses_gpus

# The line of a unit file that ends with the revision, which is a digest of the text without it.
REVISION = b"\nEnvironment=PDCTL_REVISION="
# Seconds the proxy may take to answer /health.
PROXY_START_S = 30


def instance_unit(
    topology: Topology, instance: Instance, venv: Venv, inputs: Sequence[File]
) -> list[Resource]:
    """Environment file, unit file and unit of one engine. `inputs` are the other files it reads."""
    process = _Process(
        instance.name,
        instance.role,
        words=argv(topology, instance, f"{venv.path}/bin/python"),
        variables=environment(topology, instance),
        inputs=inputs,
        venv=venv,
        health=(f"{instance.url}/health", topology.spec.serving.load_timeout_s),
        notes=notes(topology, instance),
        after=_after(topology, instance),
        gpus_on_host=topology.hosts[instance.host].gpus if uses_gpus(topology.spec) else 0,
        near=instance.near,
        fabric_s=FABRIC_S if _registers(topology, instance) else 0,
        secrets=tuple(topology.spec.secrets),
        limits=GPU_ENGINE_LIMITS if uses_gpus(topology.spec) else (),
        ports=[port for _, port in instance.ports.named()],
    )
    return _resources(topology, process)


def proxy_unit(topology: Topology, venv: Venv, config: File) -> list[Resource]:
    """Environment file, unit file and unit of the proxy, which takes up some of `config` as it runs."""
    assert config.content is not None
    place = topology.proxy
    process = _Process(
        "proxy",
        Role.PROXY,
        words=[f"{venv.path}/bin/python", "-m", "pdctl_proxy", "--config", config.path],
        variables={"HOME": cache_dir(topology.cluster, "proxy")},
        inputs=[config],
        venv=venv,
        health=(f"{topology.proxy.url}/health", PROXY_START_S),
        static=(static_digest(config.content),),
        loaded=config.digest,
        control=control_path(topology.cluster),
        ports=[port for port in (place.http, place.metrics, place.notification) if port],
    )
    return _resources(topology, process)


def config_file(topology: Topology, name: str, content: bytes, mode: str = "0640") -> File:
    """A file in the cluster's configuration folder, readable by the service user."""
    return File(
        path=f"{config_dir(topology.cluster)}/{name}",
        digest=content_digest(content),
        group=SERVICE_USER,
        mode=mode,
        content=content,
    )


def secrets_path(cluster: str) -> str:
    return f"{config_dir(cluster)}/secrets.env"


@dataclass(frozen=True)
class _Process:
    """What a unit starts, from what, and when it counts as up."""

    name: str
    role: Role
    words: Sequence[str]
    variables: Mapping[str, str]
    inputs: Sequence[File]
    venv: Venv
    health: tuple[str, int]  # URL, and the seconds it may take to answer
    notes: Sequence[str] = ()
    after: Sequence[str] = ()
    gpus_on_host: int = 0
    near: Near = field(default_factory=Near)  # the CPUs and the memory that it keeps to
    fabric_s: int = 0
    secrets: tuple[str, ...] = ()
    limits: tuple[tuple[str, str], ...] = ()
    static: tuple[str, ...] = ()  # digests that stand for its inputs, where it can take up the rest itself
    loaded: str = ""
    control: str = ""
    ports: Sequence[int] = ()


def _resources(topology: Topology, process: _Process) -> list[Resource]:
    cluster, name = topology.cluster, process.name
    variables = render("units/environment.j2", name=name, variables=process.variables)
    env = config_file(topology, f"{name}.env", variables)
    digests = sorted([env.digest, *(process.static or (file.digest for file in process.inputs))])
    text = _text(cluster, process, env)
    revision = object_digest([content_digest(text), digests, process.venv.digest])
    before, line, after = text.rpartition(REVISION)  # the last: no text of the user's comes after it
    unit_file = before + line + revision.encode() + after
    return [
        env,
        File(path=unit_path(cluster, name), digest=content_digest(unit_file), content=unit_file),
        Unit(
            name=unit_name(cluster, name),
            revision=revision,
            loaded=process.loaded,
            control=process.control,
            instance=name,
            role=process.role.value,
            argv=tuple(process.words),
            environment=tuple(sorted(process.variables.items())),
            secret_names=process.secrets,
            limits=process.limits,
            health_url=process.health[0],
            health_s=process.health[1],
            fabric_s=process.fabric_s,
            inputs=(env.id, *(file.id for file in process.inputs), process.venv.id),
        ),
    ]


def _text(cluster: str, process: _Process, env: File) -> bytes:
    """The unit file but for its revision."""
    name = process.name
    return render(
        "units/instance.service.j2",
        title=f"pdctl {cluster}: {name}",
        user=SERVICE_USER,
        argv=process.words,
        env_path=env.path,
        secrets_path=secrets_path(cluster) if process.secrets else "",
        cache=cache_dir(cluster, name),
        cache_name=f"pdctl/{cluster}/{name}",
        runtime_name=f"pdctl/{cluster}/{name}",
        notes=process.notes,
        after=process.after,
        gpus_on_host=process.gpus_on_host,
        near=process.near,
        ports=ranges(process.ports),
    )


def _registers(topology: Topology, instance: Instance) -> bool:
    known = GPUS.get(topology.hosts[instance.host].gpu_model)
    return uses_gpus(topology.spec) and known is not None and known.registers


def _after(topology: Topology, instance: Instance) -> list[str]:
    if not uses_gpus(topology.spec):
        return []
    known = GPUS.get(topology.hosts[instance.host].gpu_model)
    fabric = ["nvidia-fabricmanager.service"] if known and known.nvswitch else []
    return ["nvidia-persistenced.service", *fabric]
