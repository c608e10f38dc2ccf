"""Units and what they are started from."""

from __future__ import annotations

from collections.abc import Sequence

from pdctl.desired.engine import argv, environment, notes
from pdctl.desired.layout import (
    SERVICE_USER,
    cache_dir,
    config_dir,
    unit_name,
    unit_path,
)
from pdctl.desired.render import render
from pdctl.knowledge.gpus import GPUS
from pdctl.state import File, Resource, Unit, Venv
from pdctl.state.digest import content_digest, object_digest
from pdctl.topology.model import Instance, Role, Topology
from pdctl.topology.placement import uses_gpus

# Seconds the proxy may take to answer /health.
PROXY_START_S = 30


def instance_unit(
    topology: Topology, instance: Instance, venv: Venv, inputs: Sequence[File]
) -> list[Resource]:
    """Environment file, unit file and unit of one engine. `inputs` are the other files it reads."""
    words = argv(topology, instance, f"{venv.path}/bin/python")
    variables = environment(topology, instance)
    return _unit(
        topology,
        instance.name,
        instance.role,
        words=words,
        variables=variables,
        inputs=inputs,
        venv=venv,
        notes=notes(topology, instance),
        after=_after(topology, instance),
        gpus_on_host=topology.hosts[instance.host].gpus if uses_gpus(topology.spec) else 0,
        health=(f"{instance.url}/health", topology.spec.serving.load_timeout_s),
        secrets=tuple(topology.spec.secrets),
    )


def proxy_unit(topology: Topology, venv: Venv, config: File) -> list[Resource]:
    """Environment file, unit file and unit of the proxy."""
    words = [f"{venv.path}/bin/python", "-m", "pdctl_proxy", "--config", config.path]
    cache = cache_dir(topology.cluster, "proxy")
    return _unit(
        topology,
        "proxy",
        Role.PROXY,
        words=words,
        variables={"HOME": cache},
        inputs=[config],
        venv=venv,
        notes=[],
        after=[],
        gpus_on_host=0,
        health=(f"{topology.proxy.url}/health", PROXY_START_S),
        secrets=(),
    )


def config_file(topology: Topology, name: str, content: bytes, mode: str = "0640") -> File:
    """A file in the cluster's configuration folder, readable by the service user."""
    return File(
        path=f"{config_dir(topology.cluster)}/{name}",
        digest=content_digest(content),
        group=SERVICE_USER,
        mode=mode,
        content=content,
    )


def _unit(
    topology: Topology,
    name: str,
    role: Role,
    *,
    words: list[str],
    variables: dict[str, str],
    inputs: Sequence[File],
    venv: Venv,
    notes: list[str],
    after: list[str],
    gpus_on_host: int,
    health: tuple[str, int],
    secrets: tuple[str, ...],
) -> list[Resource]:
    cluster = topology.cluster
    env = config_file(topology, f"{name}.env", render("units/environment.j2", name=name, variables=variables))

    def text(revision: str) -> bytes:
        return render(
            "units/instance.service.j2",
            title=f"pdctl {cluster}: {name}",
            user=SERVICE_USER,
            argv=words,
            env_path=env.path,
            secrets_path=secrets_path(cluster) if secrets else "",
            cache=cache_dir(cluster, name),
            cache_name=f"pdctl/{cluster}/{name}",
            runtime_name=f"pdctl/{cluster}/{name}",
            notes=notes,
            after=after,
            gpus_on_host=gpus_on_host,
            revision=revision,
        )

    digests = sorted([env.digest, *(file.digest for file in inputs)])
    revision = object_digest([content_digest(text("")), digests, venv.digest])
    unit_file = text(revision)
    return [
        env,
        File(path=unit_path(cluster, name), digest=content_digest(unit_file), content=unit_file),
        Unit(
            name=unit_name(cluster, name),
            revision=revision,
            instance=name,
            role=role.value,
            argv=tuple(words),
            environment=tuple(sorted(variables.items())),
            secret_names=secrets,
            health_url=health[0],
            health_s=health[1],
            inputs=(env.id, *(file.id for file in inputs), venv.id),
        ),
    ]


def secrets_path(cluster: str) -> str:
    return f"{config_dir(cluster)}/secrets.env"


def _after(topology: Topology, instance: Instance) -> list[str]:
    if not uses_gpus(topology.spec):
        return []
    host = next(h for h in topology.spec.hosts if h.name == instance.host)
    known = GPUS.get(host.gpus.model or "")
    fabric = ["nvidia-fabricmanager.service"] if known and known.nvswitch else []
    return ["nvidia-persistenced.service", *fabric]
