"""One lab host with the vendors' packages in reach, and a spec of a board that needs all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pdctl.lab import Bind
from tests.hosts.line import Line
from tests.hosts.vendors import vendor_repository
from tests.labs import lab_hosts

NAME = "stack"
SPEC: dict[str, Any] = {
    "cluster": NAME,
    "hosts": [
        {
            "name": "h1",
            "address": "198.18.0.10",
            "os": "debian-12",
            "gpus": {"count": 8, "model": "B200-SXM-180GB"},
        }
    ],
    "stack": "article-2025",
    "model": {"id": "openai/gpt-oss-20b"},
    "serving": {"prefillers": {"count": 1}, "decoders": {"count": 1}},
}
LAYERS = ("--layer", "base", "--layer", "packages")
NOUVEAU = f"/etc/modprobe.d/pdctl-{NAME}-nouveau.conf"
CALLS = "/var/log/initramfs-calls"
# Stands in for initramfs-tools, which hosts of these tests have no kernel for.
INITRAMFS = f"""\
cat > /usr/sbin/update-initramfs <<'EOT'
#!/bin/sh
[ ! -e /etc/initramfs-waits ] || touch /run/initramfs-begun
while [ -e /etc/initramfs-waits ]; do sleep 0.1; done
[ ! -e /etc/initramfs-broken ] || {{ echo 'no space left' >&2; exit 1; }}
echo "$@" >> {CALLS}
EOT
chmod 755 /usr/sbin/update-initramfs
"""
SOURCES = "echo 'deb [trusted=yes] file:/srv/vendors ./' > /etc/apt/sources.list.d/vendors.list"
# Its own mount is over the file of a machine that has the driver, too.
PROC = "/proc/driver"


@contextmanager
def stack_on_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """The packages are applied already, and nothing else of the cluster."""
    repository = vendor_repository(tmp_path_factory.mktemp("vendors"))
    with lab_hosts(1, tmp_path_factory, [Bind(str(repository), "/srv/vendors")]) as lab:
        line = Line(lab, tmp_path_factory.mktemp("stack"))
        line.spec = {**SPEC, "ssh": {"config": str(lab.ssh_config)}}
        line.save()
        line.inside(f"{SOURCES}; apt-get update -q")
        line.inside(INITRAMFS)
        line.apply("--no-verify", *LAYERS)
        yield line


def diff(line: Line, *words: str) -> Any:
    return line.pdctl("diff", "--json", *LAYERS, *words).must().json


def held(line: Line) -> set[str]:
    return set(line.inside("apt-mark showhold").split())


def versions(line: Line) -> dict[str, str]:
    text = line.inside("dpkg-query -W -f '${Package} ${Version}\\n' '*nvidia*' 'cuda-*' nvlsm doca-ofed")
    return dict(row.split() for row in text.splitlines() if len(row.split()) == 2)


def calls(line: Line) -> int:
    return len(line.inside(f"cat {CALLS} 2>/dev/null || true").splitlines())
