"""Two hosts with the stack on them, and all that can keep apt on one of them from the next version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from pdctl.lab import Bind
from tests.hosts.line import Line
from tests.hosts.signatures import NEW, OLD, end_agent, make_keys, release, sign
from tests.hosts.stacked import INITRAMFS, LAYERS
from tests.hosts.stacked import SPEC as ONE_HOST
from tests.hosts.vendors import NEWER, NVIDIAS, PINNED, make_deb, repository, vendor_repository
from tests.labs import lab_hosts

SPEC: dict[str, Any] = {
    **ONE_HOST,
    "cluster": "faults",
    "hosts": [{**ONE_HOST["hosts"][0], "name": f"h{n}", "address": f"198.18.0.1{n - 1}"} for n in (1, 2)],
}
BEFORE = {"base": "article-2025", "doca_ofed": "3.0.0-058218"}
WANTED = {**BEFORE, "driver": NEWER, "fabricmanager": NEWER}
OFED = "3.1.0-091513"
FOLDER = "/srv/vendors"
ALL = f"deb [trusted=yes] file:{FOLDER}/all ./"
ONLY_OLD = f"deb [trusted=yes] file:{FOLDER}/old ./"
PORT = 8123
# A mirror that takes connections and then says nothing, or a byte now and then.
MIRROR = f"""
import socket, sys, threading, time
def answer(peer):
    peer.recv(4096)
    text = b"HTTP/1.1 200 OK\\r\\nContent-Length: 9999\\r\\n\\r\\n"
    while True:
        time.sleep(0.05 if sys.argv[1] == "drips" else 600)
        peer.send(text[:1])
        text = text[1:] or b"x"
server = socket.create_server(("127.0.0.1", {PORT}))
while True:
    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
"""
HOLDER = """
import fcntl, time
handle = open("/var/lib/dpkg/lock-frontend", "r+")
fcntl.lockf(handle, fcntl.LOCK_EX)
open("/run/holder", "w").close()
time.sleep(600)
"""


@dataclass(frozen=True)
class Fault:
    """What is broken on h1, how it is mended, what is said, and what the stack and apt's limits are then."""

    name: str
    cause: str
    says: tuple[str, ...]
    mend: str = ""
    stack: dict[str, str] = field(default_factory=lambda: WANTED)
    apt: dict[str, int] = field(default_factory=dict)


def sources(*lines: str) -> str:
    rows = "\\n".join(lines)
    return f"printf '{rows}\\n' > /etc/apt/sources.list.d/vendors.list"


def signed(name: str, key: str) -> str:
    return f"deb [signed-by={FOLDER}/{key}] file:{FOLDER}/{name} ./"


def mirror(way: str) -> str:
    started = f"systemd-run -q --unit=mirror python3 /etc/mirror.py {way}"
    listens = f"until (exec 3<>/dev/tcp/127.0.0.1/{PORT}) 2>/dev/null; do sleep 0.05; done"
    return f"{started}; bash -c '{listens}'; " + sources(
        ONLY_OLD, f"deb [trusted=yes] http://127.0.0.1:{PORT} ./"
    )


MENDED = sources(ALL)
FAULTS = (
    Fault(
        "a lock past its limit",
        "rm -f /run/holder; systemd-run -q --unit=holder python3 /etc/holder.py;"
        " until [ -e /run/holder ]; do sleep 0.05; done",
        (
            "after 1 s /var/lib/dpkg/lock-frontend is still held by process ",
            "python3 /etc/holder.py). Nothing was installed",
        ),
        "systemctl is-active holder && systemctl stop holder",
        apt={"lock_timeout_s": 1},
    ),
    Fault(
        "a version in no repository",
        sources(ONLY_OLD),
        (
            f"nvidia-driver-580-server-open {NEWER} is in no repository of this host; there are:"
            f" {PINNED} (file:{FOLDER}/old ./)",
        ),
    ),
    Fault(
        "a key that has expired",
        sources(ONLY_OLD, signed("expired", "old.gpg")),
        (f"file:{FOLDER}/expired is signed with a key that has expired: EXPKEYSIG ", f"({OLD})"),
    ),
    Fault(
        "a key that is not there",
        sources(ONLY_OLD, signed("other", "old.gpg")),
        (f"file:{FOLDER}/other is signed with a key that this host does not have: NO_PUBKEY ",),
    ),
    Fault(
        "a mirror that says nothing",
        mirror("hangs"),
        (f"http://127.0.0.1:{PORT} did not send all that was asked of it within 2 s",),
        "systemctl stop mirror",
        apt={"fetch_timeout_s": 2},
    ),
    Fault(
        "a mirror that drips",
        mirror("drips"),
        (f"http://127.0.0.1:{PORT} did not send all that was asked of it within 2 s",),
        "systemctl stop mirror",
        apt={"fetch_timeout_s": 2},
    ),
    Fault(
        "others' packages half configured",
        f"dpkg --unpack {FOLDER}/all/ofed-scripts_1_all.deb",
        (
            "dpkg has left packages unfinished here, at packages that are not pdctl's:",
            "ofed-scripts (unpacked)",
            "dpkg --configure -a",
        ),
        "dpkg --configure -a; apt-get purge -qy ofed-scripts",
    ),
    Fault(
        "a hold of others on what has to move along",
        f"dpkg -i {FOLDER}/all/ofed-scripts_1_all.deb; apt-mark hold ofed-scripts",
        ("held, and not by pdctl: ofed-scripts",),
        "apt-mark unhold ofed-scripts; apt-get purge -qy ofed-scripts",
        {**WANTED, "doca_ofed": OFED},
    ),
    Fault(
        "a full disk",
        "mkdir -p /opt/mellanox; mount -t tmpfs -o size=1m none /opt/mellanox",
        ("the disk that /opt/mellanox is on is full (", "Make room there, then apply again"),
        "umount /opt/mellanox",
        {**WANTED, "doca_ofed": OFED},
    ),
)


@contextmanager
def faulty_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    folder = tmp_path_factory.mktemp("vendors")
    make_repositories(folder)
    with lab_hosts(2, tmp_path_factory, [Bind(str(folder), FOLDER)]) as lab:
        line = Line(lab, tmp_path_factory.mktemp("faults"))
        line.spec = {**SPEC, "ssh": {"config": str(lab.ssh_config)}, "stack": BEFORE}
        line.save()
        for host in ("h1", "h2"):
            line.inside(f"{MENDED}; apt-get update -q; {INITRAMFS}", host)
        for name, program in (("mirror", MIRROR), ("holder", HOLDER)):
            line.inside(f"cat > /etc/{name}.py <<'EOT'\n{program}EOT")
        line.apply("--no-verify", *LAYERS)
        yield line


def make_repositories(folder: Any) -> None:
    """`all` of Ubuntu, `old` without the newer driver, `nvidia` beside it; the newer driver signed."""
    folder.chmod(0o755)  # apt checks signatures as a user of its own
    for name in ("all", "old", "nvidia", "expired", "other"):
        (folder / name).mkdir()
    vendor_repository(folder / "all")
    extra = [
        make_deb(
            folder / "all",
            "doca-ofed",
            OFED,
            "ofed-scripts (= 2)",
            {"opt/mellanox/ofed": os.urandom(3 << 20)},
        ),
        make_deb(folder / "all", "ofed-scripts", "1"),
        make_deb(folder / "all", "ofed-scripts", "2"),
    ]
    repository(folder / "all", sorted({*(folder / "all").glob("*.deb"), *extra}))
    release(folder / "all", "Ubuntu", "Ubuntu")
    vendor_repository(folder / "old", PINNED)
    release(folder / "old", "Ubuntu", "Ubuntu")
    fabric = "nvidia-fabricmanager-580"
    debs = [make_deb(folder / "nvidia", "libnvidia-compute-580-server", NVIDIAS)]
    for version in (NVIDIAS, "580.159.03-1"):
        debs.append(make_deb(folder / "nvidia", fabric, version))
        needs = f"{fabric} (= {version})" if version == NVIDIAS else ""
        debs.append(make_deb(folder / "nvidia", "cuda-drivers-fabricmanager-580", version, needs))
    repository(folder / "nvidia", debs)
    release(folder / "nvidia", "NVIDIA", "NVIDIA CUDA")
    make_keys(folder / "keys", folder)
    for name, owner in (("expired", OLD), ("other", NEW)):
        vendor_repository(folder / name, NEWER)
        release(folder / name, "Ubuntu", "Ubuntu")
        sign(folder / name, folder / "keys", owner)
    end_agent(folder / "keys")
