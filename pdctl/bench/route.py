"""URL + forward -> the arguments of one HTTP request that reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from yarl import URL

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def route(
    base_url: str,
    path: str,
    connect_to: tuple[str, int] | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
) -> dict[str, Any]:
    """Through a forward at `connect_to`, the Host header and the TLS name stay those of the URL."""
    url = URL(base_url.rstrip("/") + path)
    # a compressing hop would hold tokens back, and a redirect would measure two servers
    plain = {"headers": {"Accept-Encoding": "identity", **headers}, "allow_redirects": False}
    if connect_to is None:
        return {"url": url, **plain}
    host, port = connect_to
    plain["headers"] = {"Host": url.host_port_subcomponent or "", "Accept-Encoding": "identity", **headers}
    name = {"server_hostname": url.host} if url.scheme == "https" else {}
    return {"url": url.with_host(host).with_port(port), **plain, **name}
