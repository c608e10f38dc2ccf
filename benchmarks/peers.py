"""A spec -> what pyinfra needs for the same deploy: its own environment, and every host's rows."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

from pdctl.desired import desire
from pdctl.spec.load import load
from pdctl.state.codec import resource_to_json
from pdctl.topology import resolve

DEPLOY = Path(__file__).parent / "pyinfra_deploy"
LOCK = DEPLOY / "requirements.lock"


def make_pyinfra(folder: Path) -> Path:
    """pyinfra (MIT licence) as the lock names it, in an environment of its own; gives back the program."""
    venv.create(folder, with_pip=True)
    words = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes", "-r", str(LOCK))
    done = subprocess.run([folder / "bin" / "python", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"pyinfra could not be installed:\n{done.stderr.strip()}")
    return folder / "bin" / "pyinfra"


def pyinfra_version() -> str:
    (pin,) = (line.split()[0] for line in LOCK.read_text().splitlines() if line.startswith("pyinfra=="))
    return pin.removeprefix("pyinfra==")


def write_rows(spec: Path, addresses: Mapping[str, str], ssh_config: Path, out: Path) -> None:
    """The hosts of `spec` for `pyinfra_deploy/inventory.py`: how to log in, and what they should hold."""
    desired = desire(resolve(load(spec)))
    found = []
    for name, address in addresses.items():
        rows = [resource_to_json(r, full=True) | {"id": k.id} for k, r in desired.items() if k.host == name]
        data = {"ssh_hostname": address, "ssh_config_file": str(ssh_config), "rows": rows}
        found.append({"name": name, "data": data})
    out.write_text(json.dumps(found))
