"""Rules on host names, addresses and how hosts are reached."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from pdctl.spec.finding import Finding, Path
from pdctl.spec.model import Cluster
from pdctl.spec.values import is_number

LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})


def names_are_unique(cluster: Cluster) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for i, host in enumerate(cluster.hosts):
        if first.setdefault(host.name, i) != i:
            yield Finding(
                "HOST001",
                ("hosts", i, "name"),
                f"`{host.name}` is already the name of hosts[{first[host.name]}]",
                "give each host its own name",
            )


def addresses_are_unique(cluster: Cluster) -> Iterator[Finding]:
    """One machine listed twice would get two sets of instances on the same GPUs and ports."""
    first: dict[str, int] = {}
    for path, i, address in _addresses(cluster):
        owner = first.setdefault(_normal(address), i)
        if owner != i and cluster.hosts[owner].name != cluster.hosts[i].name:
            yield Finding(
                "HOST002",
                path,
                f"`{address}` is already the address of host `{cluster.hosts[owner].name}`",
                "each host is one machine; list it once",
            )


def names_that_are_addresses_are_legal(cluster: Cluster) -> Iterator[Finding]:
    for i, host in enumerate(cluster.hosts):
        if host.address is None and is_number(host.name):
            yield Finding(
                "HOST003",
                ("hosts", i, "name"),
                f"`{host.name}` has no `address`, and as one it would be read as a number",
                "add `address:` with an IP address, or give it another name",
            )
        elif host.address is None and "_" in host.name:
            yield Finding(
                "HOST003",
                ("hosts", i, "name"),
                f"`{host.name}` has no `address`, so its name stands in URLs, where `_` is not allowed",
                "add `address:` with an IP address, or use hyphens",
            )


def addresses_reach_other_hosts(cluster: Cluster) -> Iterator[Finding]:
    """What a host is told to peers as must lead to it from there."""
    if len(cluster.hosts) < 2:
        return
    for path, i, address in _addresses(cluster):
        if _is_loopback(address):
            yield Finding(
                "HOST004",
                path,
                f"`{address}` means another machine on each host, and this cluster has {len(cluster.hosts)}",
                f"give `{cluster.hosts[i].name}` an address that the other hosts reach it at",
            )


def addresses_need_no_zone(cluster: Cluster) -> Iterator[Finding]:
    """A link-local IPv6 address means something only together with an interface of the one who asks."""
    for path, _, address in _addresses(cluster):
        ip = _ip(address)
        if ip is not None and ip.version == 6 and ip.is_link_local:
            yield Finding(
                "HOST007",
                path,
                f"`{address}` is link-local: it leads nowhere without an interface of the host that uses it",
                "give it an address that is the same from everywhere",
            )


def peers_speak_one_ip_version(cluster: Cluster) -> Iterator[Finding]:
    first: dict[int, str] = {}
    for i, host in enumerate(cluster.hosts):
        address = host.private_address or host.address or host.name
        ip = _ip(address)
        if ip is None or ip.is_loopback or ip.is_link_local or getattr(ip, "ipv4_mapped", None):
            continue  # told by other rules
        first.setdefault(ip.version, host.name)
        if ip.version != next(iter(first)):
            other = next(iter(first))
            yield Finding(
                "HOST008",
                ("hosts", i, "private_address" if host.private_address else "address"),
                f"`{address}` is IPv{ip.version}, and {first[other]} is reached by IPv{other}: each host must"
                " have both",
                "use addresses of one version between hosts",
            )


def only_one_host_is_local(cluster: Cluster) -> Iterator[Finding]:
    if len(cluster.hosts) < 2:
        return
    for i, host in enumerate(cluster.hosts):
        if host.ssh is not None and host.ssh.connection == "local":
            yield _local(("hosts", i, "ssh", "connection"), cluster)
    if cluster.ssh.connection == "local" and any(host.ssh is None for host in cluster.hosts):
        yield _local(("ssh", "connection"), cluster)


def _local(path: Path, cluster: Cluster) -> Finding:
    return Finding(
        "HOST005",
        path,
        f"`local` reaches this machine only, and the cluster has {len(cluster.hosts)} hosts",
        "use `connection: ssh` for clusters of more than one host",
    )


def _addresses(cluster: Cluster) -> Iterator[tuple[Path, int, str]]:
    """Each address that others use, with the field it is written in."""
    for i, host in enumerate(cluster.hosts):
        field = "name" if host.address is None else "address"
        yield ("hosts", i, field), i, host.address or host.name
        if host.private_address is not None:
            yield ("hosts", i, "private_address"), i, host.private_address


def _normal(address: str) -> str:
    ip = _ip(address)
    return address.lower().rstrip(".") if ip is None else str(getattr(ip, "ipv4_mapped", None) or ip)


def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None


def _is_loopback(address: str) -> bool:
    ip = _ip(address)
    if ip is None:
        return address.lower() in LOOPBACK_NAMES or address.lower().endswith(".localhost")  # RFC 6761
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback
