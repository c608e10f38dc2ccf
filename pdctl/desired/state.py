"""The arrow topology -> State(desired)."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.desired.accounts import limits
from pdctl.desired.engine import downloads, pool_of
from pdctl.desired.layout import (
    CACHE,
    CONFIG,
    DOWNLOADS,
    MODELS,
    PREFIX,
    SERVICE_USER,
    VENVS,
    VOCABULARY,
    VOCABULARY_IN_BUNDLE,
    config_dir,
)
from pdctl.desired.lmcache import lmcache_file
from pdctl.desired.packages import packages
from pdctl.desired.proofs import proven_engine, proven_proxy
from pdctl.desired.proxy import proxy_config
from pdctl.desired.repositories import repositories
from pdctl.desired.runtime import engine_runtime, proxy_runtime
from pdctl.desired.units import config_file, instance_unit, proxy_unit, secrets_path
from pdctl.desired.weights import HUB_CACHE
from pdctl.desired.weights import weights as of_model
from pdctl.knowledge.models import TINY
from pdctl.knowledge.vocabularies import VOCABULARIES
from pdctl.parts.tiny_model import TINY_MODEL
from pdctl.spec.model import Host
from pdctl.state import Directory, File, Key, Resource, User, key_of
from pdctl.topology.model import Instance, Role, Topology

__all__ = ["desire", "pool_of"]


def desire(topology: Topology, secret_digest: str = "") -> dict[Key, Resource]:
    """What every host of the cluster should hold; hosts without a part in it hold nothing.

    `secret_digest` is that of the rendered secrets file (`state.digest.secret_digest`), which only the
    edge can compute, since this function never sees a secret's value.
    """
    placed: dict[str, list[Instance]] = {host.name: [] for host in topology.spec.hosts}
    for instance in topology.instances:
        placed[instance.host].append(instance)
    return {
        key_of(host.name, resource): resource
        for host in topology.spec.hosts
        for resource in _host(topology, host, placed[host.name], secret_digest)
    }


def _host(
    topology: Topology, host: Host, instances: list[Instance], secret_digest: str
) -> Iterator[Resource]:
    proxy_here = topology.proxy.host == host.name
    if not instances and not proxy_here:
        return
    yield User(SERVICE_USER, PREFIX)
    yield from _directories(topology.cluster)
    if instances:
        yield from (*limits(topology), *repositories(topology, host), *packages(topology, host))
    secrets = list(_secrets(topology, secret_digest)) if instances else []
    yield from secrets
    if instances:
        yield from _engines(topology, instances, secrets)
    if proxy_here:
        yield from _proxy(topology)


def _directories(cluster: str) -> Iterator[Resource]:
    yield Directory(PREFIX)
    yield Directory(VENVS)
    yield Directory(CONFIG)
    yield Directory(config_dir(cluster), group=SERVICE_USER, mode="0750")
    yield Directory(CACHE)
    yield Directory(f"{CACHE}/{cluster}")


def _engines(topology: Topology, instances: list[Instance], secrets: list[File]) -> Iterator[Resource]:
    venv = proven_engine(topology, engine_runtime(topology, instances[0].host), instances)
    yield venv
    weights = list(_weights(topology))
    if weights:
        yield Directory(MODELS)
        yield Directory(f"{MODELS}/tiny")
    yield from weights
    words = list(_vocabulary(topology))
    if words:
        yield Directory(MODELS)
        yield Directory(VOCABULARY)
    yield from words
    if downloads(topology):
        yield Directory(MODELS)
        for folder in (DOWNLOADS, HUB_CACHE):
            yield Directory(folder, owner=SERVICE_USER, group=SERVICE_USER, mode="0750")
    yield from of_model(topology, instances, venv, secrets[0].path if secrets else "")
    for instance in instances:
        inputs = [*secrets, *weights, *words]
        if instance.role is not Role.SERVER and topology.spec.serving.connector == "lmcache":
            file = config_file(topology, f"{instance.name}.lmcache.yaml", lmcache_file(topology, instance))
            inputs.append(file)
            yield file
        yield from instance_unit(topology, instance, venv, inputs)


def _proxy(topology: Topology) -> Iterator[Resource]:
    venv = proven_proxy(topology, proxy_runtime(topology))
    config = config_file(topology, "proxy.json", proxy_config(topology))
    yield venv
    yield config
    yield from proxy_unit(topology, venv, config)


def _secrets(topology: Topology, digest: str) -> Iterator[File]:
    if not topology.spec.secrets:
        return
    sources = tuple(
        (name, f"env:{ref.from_env}" if ref.from_env else f"file:{ref.from_file}")
        for name, ref in topology.spec.secrets.items()
    )
    yield File(secrets_path(topology.cluster), digest, mode="0600", secret=True, secret_env=sources)


def _weights(topology: Topology) -> Iterator[File]:
    spec = topology.spec
    if spec.model.id != TINY or spec.engine.kind != "vllm" or spec.model.path:
        return
    for name, (digest, _) in sorted(TINY_MODEL.items()):
        yield File(f"{MODELS}/tiny/{name}", f"sha256:{digest}", source=f"models/tiny/{name}")


def _vocabulary(topology: Topology) -> Iterator[File]:
    for name in topology.vocabulary:
        digest = f"sha256:{VOCABULARIES[name].sha256}"
        yield File(f"{VOCABULARY}/{name}", digest, source=f"{VOCABULARY_IN_BUNDLE}/{name}")
