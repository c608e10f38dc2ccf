"""Our playbooks, run by plain ansible-playbook on lab hosts, with host variables written by hand."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pdctl.apply.playbook import APPLY, BESIDE, playbook
from pdctl.assets import assets
from pdctl.lab import Lab
from pdctl.plan import Step, StepKind
from pdctl.state.digest import content_digest
from pdctl.topology.model import START_ORDER

CLUSTER = "chat"
RESULT = re.compile(r"^(ok|changed|fatal): \[(\w+)\](?:: (\w+)!)? => (\{.*\})$")
BASE = {
    "cluster": CLUSTER,
    "record": f"/var/lib/pdctl/{CLUSTER}/record.json",
    "bundle": "/opt/pdctl/bundle",
    "meta": {"applied_at": "2030-01-01T00:00:00Z", "by": "ann@desk", "pdctl": "0.1.0", "spec_digest": "d1"},
}
PYTHON = "/usr/bin/python3"
PROGRAM = (Path(sys.executable).parent / "ansible-playbook",)
KINDS = {"put": StepKind.PUT, "stop": StepKind.STOP, "delete": StepKind.DELETE}
Row = dict[str, Any]


@dataclass
class Run:
    """One run of a playbook: exit status, all it printed, what each host's modules said."""

    status: int
    output: str
    results: list[tuple[str, str, Row]] = field(default_factory=list)

    def did(self, host: str) -> list[str]:
        return [line for _, name, result in self.results if name == host for line in result.get("did", ())]

    def failure(self, host: str) -> Row:
        return next(result for state, name, result in self.results if name == host and state == "fatal")


def play(
    lab: Lab,
    name: str,
    hosts: Mapping[str, Mapping[str, Any]],
    *,
    env: Mapping[str, str] | None = None,
    words: tuple[str, ...] = ("-v",),
    program: Sequence[str | Path] = PROGRAM,
    timeout: float = 120,
) -> Run:
    """`hosts`: variables by host; a host is in the group of each variable it has."""
    process = start(lab, name, hosts, env=env, words=words, program=program)
    output, _ = process.communicate(timeout=timeout)
    found = (RESULT.match(line) for line in output.splitlines())
    results = [(m[1], m[2], json.loads(m[4])) for m in found if m]
    return Run(process.returncode, output, results)


def start(
    lab: Lab,
    name: str,
    hosts: Mapping[str, Mapping[str, Any]],
    *,
    env: Mapping[str, str] | None = None,
    words: tuple[str, ...] = (),
    program: Sequence[str | Path] = PROGRAM,
) -> subprocess.Popen[str]:
    """The playbook of apply is that of a plan with a step for each role that any host has a request for."""
    inventory = lab.paths.directory / "inventory.json"
    inventory.write_text(json.dumps(inventory_of(lab, hosts)))
    command: list[str | Path] = [*program, "-i", inventory, *words, f"{name}.yml"]
    return subprocess.Popen(
        command,
        cwd=assets("playbooks") if name == "destroy" else written(lab.paths.directory, hosts),
        env={
            **os.environ,
            "ANSIBLE_NOCOLOR": "1",
            # Another lab's hosts have the same names, and Ansible would find its connections to them.
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(lab.paths.directory / "cp"),
            **(env or {}),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def written(folder: Path, hosts: Mapping[str, Mapping[str, Any]]) -> Path:
    """A folder with the playbook for these requests."""
    asked = {name for variables in hosts.values() for name in variables}
    steps = [
        Step(name, f"Play {name}", (), KINDS.get(name, StepKind.UNITS))
        for name in ("put", "stop", *(role.value for role in START_ORDER), "delete")
        if f"pdctl_{name}" in asked
    ]
    target = folder / "playbook"
    target.mkdir(exist_ok=True)
    for entry in BESIDE:
        if not (target / entry).is_symlink():
            (target / entry).symlink_to(assets("playbooks") / entry)
    (target / APPLY).write_bytes(playbook(steps))
    return target


def inventory_of(lab: Lab, hosts: Mapping[str, Mapping[str, Any]]) -> Row:
    groups: dict[str, dict[str, Row]] = {}
    for host, variables in hosts.items():
        for name in variables:
            if name.startswith("pdctl_"):
                groups.setdefault(name, {"hosts": {}})["hosts"][host] = {}
    # One name for a group and a variable is fine, one host's variables must not become another's.
    common = {"ansible_ssh_common_args": f"-F {shlex.quote(str(lab.ssh_config))}"}
    return {"all": {"hosts": {h: {**v, **common} for h, v in hosts.items()}, "children": groups}}


def request(**more: Any) -> str:
    """As the controller hands it over: text that no template can touch."""
    return base64.b64encode(json.dumps({**BASE, **more}).encode()).decode()


def user(name: str = "pdctl") -> Row:
    return {"kind": "user", "name": name, "home": "/nonexistent", "shell": "/usr/sbin/nologin"}


def directory(path: str, **more: Any) -> Row:
    return {"kind": "directory", "path": path, "owner": "root", "group": "root", "mode": "0755", **more}


def file(path: str, text: str, **more: Any) -> Row:
    data = text.encode()
    row = {"kind": "file", "path": path, "digest": content_digest(data), "owner": "root", "group": "root"}
    return {**row, "mode": "0644", "secret": False, "content": base64.b64encode(data).decode(), **more}


def package(name: str, version: str | None = None, hold: bool = False, deb: str | None = None) -> Row:
    row = {"kind": "package", "name": name, "version": version, "hold": hold, "deb": deb}
    return {**row, "deviations": []}


def web_unit(instance: str, port: int, revision: str = "r1", **changes: Any) -> tuple[Row, Row]:
    """A unit file and its unit: a small web server in the place of an engine."""
    name = f"pdctl-{CLUSTER}-{instance}.service"
    argv = changes.pop(
        "argv", [PYTHON, "-m", "http.server", str(port), "--directory", f"/etc/pdctl/{CLUSTER}"]
    )
    words = " ".join(f"'{word}'" if re.search(r"[^\w/.:-]", word) else word for word in argv)
    text = (
        f"[Unit]\nDescription={instance}\nStartLimitIntervalSec=0\n[Service]\nType=exec\nUser=pdctl\n"
        f"ExecStart={words}\nEnvironment=PDCTL_REVISION={revision} GREETING=hello\n"
        f"CacheDirectory=pdctl/{CLUSTER}/{instance}\nRestart={changes.pop('restart_policy', 'no')}\n"
        f"{changes.pop('settings', '')}\n"
        f"RestartSec=1\n[Install]\nWantedBy=multi-user.target\n"
    )
    unit = {
        "kind": "unit",
        "name": name,
        "enabled": True,
        "active": "active",
        "revision": revision,
        "deviations": [],
        "loaded": "",
        "drained": [],
        "sides": [],
        "argv": argv,
        "environment": [["GREETING", "hello"]],
        "secret_names": [],
        "health_url": f"http://127.0.0.1:{port}/",
        "health_s": 20,
        **changes,
    }
    return file(f"/etc/systemd/system/{name}", text), unit


def inside(lab: Lab, host: str, script: str) -> str:
    """A shell script as root in the host; its output."""
    done = lab.exec(host, ["sh", "-c", script])
    assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
    return done.stdout


def snapshot(lab: Lab, host: str) -> list[str]:
    """All that a cluster could leave behind: files with owner and mode, accounts, packages, units, links."""
    trees = "/etc /opt /opt/pdctl /usr /var/lib /var/cache /srv /run/systemd/system"
    return inside(
        lab,
        host,
        # A bundle that is bound into the host belongs to the machine, and others may add to it.
        "bound=/none; mountpoint -q /opt/pdctl/bundle && bound=/opt/pdctl/bundle; "
        f'find {trees} -xdev \\( -path "$bound/*" -o -path /var/lib/systemd '
        r"-o -path /var/cache/apt -o -path /var/lib/apt "
        r"-o -path /var/lib/dpkg -o -path /var/lib/private \) -prune -o -printf '%p %u %g %m %l\n' "
        "| sort -u; "
        "cat /etc/passwd /etc/group /etc/shadow; dpkg-query -W -f '${Package} ${Version} ${Status}\\n'; "
        "systemctl list-units --all --no-legend 'pdctl-*'; systemctl --failed --no-legend; "
        "find /run -maxdepth 1 -name 'pdctl*'",
    ).splitlines()


# Of the file systems of a host: what programs that pdctl does not speak for write on their own.
PASSING = (
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/tmp",
    "/var/log",
    "/var/lib/apt",
    "/var/cache/apt",
    "/var/lib/systemd",
)
# useradd and userdel keep the text before their last change there.
BACKUPS = tuple(f"/etc/{name}-" for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid"))


def listing(lab: Lab, host: str) -> list[str]:
    """The whole host: every file with owner, mode, size and what is in it below /etc and /root, packages with
    their marks, accounts, units with their states."""
    apart = " -o ".join(f"-path {path}" for path in [*PASSING, *BACKUPS])
    return inside(
        lab,
        host,
        # A bundle that is bound into the host belongs to the machine.
        "bound=/none; mountpoint -q /opt/pdctl/bundle && bound=/opt/pdctl/bundle; "
        f'find / /opt/pdctl -xdev \\( -path "$bound" -o {apart} \\) -prune -o '
        r"\( -type d -printf '%p %u %g %m\n' \) -o -printf '%p %y %u %g %m %s %l\n' | sort -u; "
        r"find /etc /root /home -xdev -type f ! -name '*-' -exec sha256sum {} + | sort -k 2; "
        "dpkg-query -W -f '${Package} ${Version} ${Status}\\n'; apt-mark showmanual; apt-mark showhold; "
        "getent passwd; getent group; cat /etc/shadow; "
        "systemctl list-unit-files --no-legend; systemctl --failed --no-legend; "
        "systemctl list-units --all --no-legend --plain 'pdctl*'; "
        "find /run /tmp -maxdepth 1 -name '*pdctl*'; ls -A /var/tmp",
    ).splitlines()
