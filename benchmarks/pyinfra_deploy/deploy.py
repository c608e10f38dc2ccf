"""What `pdctl render` puts on the hosts, as a pyinfra deploy: the peer that pdctl is timed against.

pyinfra runs this in an environment of its own. The n-th operation of a loop runs on all hosts at once.
"""

from __future__ import annotations

import base64
import shlex
from io import BytesIO

from pyinfra import config, host
from pyinfra.facts.files import File
from pyinfra.operations import apt, files, server, systemd
from pyinfra.operations.util import any_changed

config.SUDO = True
ROWS = host.data.rows
BUNDLE = "/opt/pdctl/bundle"
# Stands for a whole environment: pdctl looks at every file of it, the peer need not.
MARKER = ".pdctl-venv.json"
HEALTHY = """\
import sys, time, urllib.request
end = time.monotonic() + float(sys.argv[2])
while True:
    try:
        urllib.request.urlopen(sys.argv[1], timeout=2); break
    except OSError as error:
        if time.monotonic() > end: sys.exit(str(error))
        time.sleep(0.05)
"""


def rows(kind: str) -> list[dict]:
    return [row for row in ROWS if row["kind"] == kind]


def venv_commands(row: dict) -> list[str]:
    """From the wheels of the bundle, by uv, as pdctl does it."""
    path, new, build = row["path"], row["path"] + ".new", row["path"] + ".build"
    wheels = f"{BUNDLE}/wheels"
    lines = shlex.quote("\n".join(row["requirements"]) + "\n")
    uv = f"env UV_NO_CONFIG=1 UV_CACHE_DIR={build}/cache {build}/bin/uv"
    install = "--compile-bytecode --no-deps --no-index --require-hashes"
    return [
        f"rm -rf {new} {build} && python3 -m zipfile -e {wheels}/uv-*.whl {build} && mkdir {build}/bin",
        f"install -m 755 {build}/uv-*/scripts/uv {build}/bin/uv && printf %s {lines} > {build}/lock",
        f"{uv} venv -q --relocatable --no-project --python {row['python']} {new}",
        f"{uv} pip install -q --python {new}/bin/python {install} --find-links {wheels} -r {build}/lock",
        f"touch {new}/{MARKER} && mv {new} {path} && rm -rf {build}",
    ]


def start(role: str) -> None:
    """Restart what reads a file that changed, start what is down, wait until those answer."""
    for row in (each for each in rows("unit") if each["role"] == role):
        read = [f"file:/etc/systemd/system/{row['name']}", *row["inputs"]]
        stale = any_changed(*(changed[name] for name in read if name in changed))
        systemd.service(name="Restart", service=row["name"], restarted=True, _if=stale)
        started = systemd.service(name="Start", service=row["name"], running=True, enabled=True)
        test = shlex.join(["python3", "-c", HEALTHY, row["health_url"], str(row["health_s"])])
        server.shell(
            name="Wait",
            commands=[test],
            _if=lambda stale=stale, started=started: stale() or started.did_change(),
        )


for row in rows("user"):
    server.user(
        name="User", user=row["name"], home=row["home"], shell=row["shell"], system=True, ensure_home=False
    )

for row in rows("directory"):
    files.directory(
        name="Directory", path=row["path"], user=row["owner"], group=row["group"], mode=row["mode"]
    )

changed = {}
for row in rows("file"):
    changed[row["id"]] = files.put(
        name="File",
        src=BytesIO(base64.b64decode(row["content"])),
        dest=row["path"],
        user=row["owner"],
        group=row["group"],
        mode=row["mode"],
    )

wanted = [f"{r['name']}={r['version']}" if r["version"] else r["name"] for r in rows("package")]
if wanted:
    apt.packages(name="Packages", packages=wanted)

for row in rows("venv"):
    if not host.get_fact(File, path=f"{row['path']}/{MARKER}"):
        server.shell(name="Python environment", commands=venv_commands(row))

systemd.daemon_reload(
    _if=any_changed(*(op for name, op in changed.items() if name.startswith("file:/etc/systemd/system/")))
)

# One line for each: operations of one line run on all hosts together, and decoders come first.
start("decoder")
start("server")
start("prefiller")
start("proxy")
