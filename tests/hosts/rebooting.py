"""Lab hosts that boot like ones with a driver: what is on disk by then is in memory afterwards."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pdctl.bundle.collect import Runtime, collect, default_folder
from pdctl.lab import Bind
from tests.hosts.line import HOSTS, Line
from tests.hosts.stacked import SOURCES
from tests.hosts.vendors import DRIVER, PINNED, vendor_repository
from tests.labs import lab_hosts

NOUVEAU = "/etc/modprobe.d/pdctl-line-nouveau.conf"
BOOTS = "/var/log/boots"
# Plays the kernel of a machine with NVIDIA GPUs, at boot and before all services: it loads the module that is
# on disk, and nouveau unless the initramfs forbids it. /etc/has-nouveau is a kernel that has nouveau at all.
KERNEL = f"""#!/bin/sh
echo "$(date +%s) boot" >> {BOOTS}
built=/lib/modules/$(uname -r)/nvidia.version
mount -t tmpfs none /sys/module
mount -t tmpfs none /proc/driver
if [ -e /etc/has-nouveau ] && ! grep -qs '^blacklist nouveau' /boot/initramfs/*; then
    mkdir /sys/module/nouveau
elif [ -s "$built" ] && [ ! -e /etc/refuses-nvidia ]; then
    mkdir /sys/module/nvidia /proc/driver/nvidia
    echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $(cat $built)  Release Build" \
        > /proc/driver/nvidia/version
fi
"""
UNIT = """[Unit]
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/plays-the-kernel
[Install]
WantedBy=sysinit.target
"""
# The running kernel's release is the machine's own: it is what boots, unless a test adds a newer one.
SETUP = f"""
cat > /usr/local/sbin/plays-the-kernel <<'EOT'
{KERNEL}EOT
cat > /etc/systemd/system/plays-the-kernel.service <<'EOT'
{UNIT}EOT
cat > /usr/sbin/update-initramfs <<'EOT'
#!/bin/sh
mkdir -p /boot/initramfs && cp /etc/modprobe.d/*.conf /boot/initramfs/
EOT
cat > /usr/local/sbin/modinfo <<'EOT'
#!/bin/sh
cat /lib/modules/$2/nvidia.version
EOT
chmod 755 /usr/local/sbin/plays-the-kernel /usr/sbin/update-initramfs /usr/local/sbin/modinfo
mkdir -p /boot/initramfs /lib/modules/$(uname -r)/build
touch /boot/vmlinuz-$(uname -r)
systemctl enable -q plays-the-kernel
{SOURCES}
apt-get update -qq
"""


@contextmanager
def rebooting_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """Two hosts with a bundle and a vendor's repository in reach, and nothing of the cluster."""
    bundle = default_folder()
    collect([Runtime("simulator", "3.11"), Runtime("proxy", "3.11")], bundle)
    repository = vendor_repository(tmp_path_factory.mktemp("vendors"))
    binds = [Bind(str(bundle), "/opt/pdctl/bundle"), Bind(str(repository), "/srv/vendors")]
    with lab_hosts(len(HOSTS), tmp_path_factory, binds) as lab:
        line = Line(lab, tmp_path_factory.mktemp("line"))
        for host in HOSTS:
            line.inside(SETUP, host)
        yield line


def write(line: Line, driver: str = PINNED, *, stale: bool = True, **serving: Any) -> None:
    """Two prefillers and two decoders, one of each on either host, and the driver that they stand on."""
    engine = {"kind": "simulator", "simulator": {"stack": True, "stale_peers": stale}}
    rollout = {"rollout": {"reboot_timeout_s": 60}}
    pools = {"prefillers": {"count": 2}, "decoders": {"count": 2}}
    line.write({"engine": engine, "stack": {"driver": driver}}, **pools, **(copy.deepcopy(rollout) | serving))


def boots(line: Line, host: str) -> int:
    """Read from outside: what enters a host that shuts down keeps it from doing so."""
    return len((line.lab.paths.root(host) / BOOTS.lstrip("/")).read_text().splitlines())


def loaded(line: Line, host: str) -> str:
    text = line.inside("cat /proc/driver/nvidia/version 2>/dev/null || true", host)
    return text.split("x86_64  ")[1].split(" ")[0] if text.strip() else ""


def on_disk(line: Line, host: str) -> str:
    return line.inside(f"dpkg-query -W -f '${{Version}}' {DRIVER}", host).strip()


def delay(line: Line, host: str, seconds: int) -> None:
    """The firmware of this host takes so long at each reboot."""
    (line.lab.paths.host(host) / "reboot-delay").write_text(f"{seconds}\n")
