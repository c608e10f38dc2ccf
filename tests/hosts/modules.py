"""Stand-ins for dkms, modprobe and the kernel's log: a host of these tests has no kernel of its own."""

from __future__ import annotations

CALLS = "/var/log/module-calls"
REFUSED = "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"
PROGRAMS = {
    "dkms": f"""\
[ "$1" != status ] || {{ echo "nvidia/$(cat /etc/dkms-version), $(uname -r), x86_64: installed"; exit; }}
echo "dkms $*" >> {CALLS}
""",
    "modprobe": f"""\
echo "modprobe $*" >> {CALLS}
[ ! -e /etc/peermem-refused ] || {{
    echo "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument" >&2
    exit 1
}}
mkdir /sys/module/nvidia_peermem
""",
    "dmesg": f"""\
[ ! -e /etc/peermem-refused ] || echo "[   99.5] {REFUSED}"
""",
    "ofed_info": "echo OFED-internal-25.07-0.9.7:\n",
}


def driver_in_memory(version: str) -> str:
    """A script: the host has these programs, its driver is loaded, and nvidia-peermem is not."""
    made = [
        f"cat > /usr/sbin/{name} <<'EOT'\n#!/bin/sh\n{text}EOT\nchmod 755 /usr/sbin/{name}"
        for name, text in PROGRAMS.items()
    ]
    return "\n".join(
        [
            *made,
            f"echo {version} > /etc/dkms-version; mkdir -p /lib/modules/$(uname -r)/build",
            "mount -t tmpfs none /sys/module; mkdir /sys/module/nvidia",
        ]
    )
