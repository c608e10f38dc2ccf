"""Rules on roles, counts and placement."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster, Host
from pdctl.spec.rules.rule import guess, pools
from pdctl.spec.serving import Place

NEEDS = {"disaggregated": ("prefillers", "decoders"), "aggregated": ("instances",)}


def the_mode_has_its_pools(cluster: Cluster) -> Iterator[Finding]:
    mode = cluster.serving.mode
    needed = NEEDS[mode]
    for path, pool in pools(cluster):
        name = path[-1]
        if name not in needed:
            yield Finding(
                "ROLE002",
                path,
                f"mode `{mode}` has no `{name}`",
                f"remove them, or set `mode: {'aggregated' if mode == 'disaggregated' else 'disaggregated'}`",
                on_key=True,
            )
        elif pool.count == 0:
            yield Finding("ROLE003", (*path, "count"), f"mode `{mode}` needs at least one of `{name}`, not 0")
    for name in needed:
        if getattr(cluster.serving, name) is None:
            yield Finding(
                "ROLE001",
                ("serving",),
                f"mode `{mode}` needs `{name}`",
                f"add `{name}: {{count: 1, tensor_parallel: 1}}`",
            )


def hosts_are_known(cluster: Cluster) -> Iterator[Finding]:
    known = {host.name for host in cluster.hosts}
    for path, name in _named(cluster):
        if name not in known:
            yield Finding("PLACE001", path, f"no host is named `{name}`", guess(name, known))


def labels_leave_a_host(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        if not pool.labels or pool.placement is not None:
            continue
        asked = [host for host in cluster.hosts if pool.hosts is None or host.name in pool.hosts]
        if asked and not any(pool.labels.items() <= host.labels.items() for host in asked):
            words = ", ".join(f"{key}: {value}" for key, value in pool.labels.items())
            yield Finding(
                "PLACE002",
                (*path, "labels"),
                f"no host carries the labels `{words}`",
                "label hosts under `hosts`",
            )


def hosts_are_named_once(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        names = pool.hosts or []
        for i, name in enumerate(names):
            if name in names[:i]:
                yield Finding(
                    "PLACE005", (*path, "hosts", i), f"`{name}` is named twice", "name each host once"
                )


def placement_fits_count(cluster: Cluster) -> Iterator[Finding]:
    for path, pool in pools(cluster):
        if pool.placement is not None and len(pool.placement) != pool.count:
            yield Finding(
                "PLACE003",
                (*path, "placement"),
                f"places {len(pool.placement)} instances, and `count` is {pool.count}",
                "give one entry for each instance, or leave `count` out",
            )


def placed_gpus_exist(cluster: Cluster) -> Iterator[Finding]:
    if cluster.engine.kind == "vllm" and cluster.engine.device == "cpu":
        return
    hosts = {host.name: host for host in cluster.hosts}
    for path, pool in pools(cluster):
        for i, place in enumerate(pool.placement or ()):
            if place.gpus is not None:
                here = (*path, "placement", i, "gpus")
                yield from _gpus(here, place.gpus, pool.tensor_parallel, hosts.get(place.host))


def _gpus(path: Path, gpus: list[int], tensor_parallel: int, host: Host | None) -> Iterator[Finding]:
    if len(gpus) != tensor_parallel:
        few = f"{len(gpus)} GPU{'s' if len(gpus) != 1 else ''}"
        yield Finding(
            "GPU001",
            path,
            f"lists {few}, and `tensor_parallel` is {tensor_parallel}",
            "list one index for each rank",
        )
    if host is not None and host.gpus.count == 0:
        yield Finding(
            "GPU002", path, f"host `{host.name}` has no GPUs", f"give `{host.name}` its `gpus` under `hosts`"
        )
        return
    for k, gpu in enumerate(gpus):
        if gpu in gpus[:k]:
            yield Finding(
                "GPU003", (*path, k), f"GPU {gpu} is listed twice", "each rank needs a GPU of its own"
            )
        elif host is not None and gpu >= host.gpus.count:
            last = host.gpus.count - 1
            yield Finding("GPU004", (*path, k), f"host `{host.name}` has no GPU {gpu}, only 0 to {last}")


def _named(cluster: Cluster) -> Iterator[tuple[Path, str]]:
    """Every mention of a host by name."""
    if cluster.serving.proxy.host is not None:
        yield ("serving", "proxy", "host"), cluster.serving.proxy.host
    for path, pool in pools(cluster):
        yield from (((*path, "hosts", i), name) for i, name in enumerate(pool.hosts or ()))
        yield from (_placed(path, i, place) for i, place in enumerate(pool.placement or ()))


def _placed(path: Path, i: int, place: Place) -> tuple[Path, str]:
    return (*path, "placement", i, "host"), place.host
