"""What can change behind pdctl's back, as cases: a script, what diff must say, what apply has to start."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from tests.hosts.line import CLUSTER, CONFIG, UNITS, unit

SITE = "$(echo /opt/pdctl/venvs/simulator-*)/lib/python3.11/site-packages"
D0, D1, P0, PROXY = (unit(name) for name in ("decoder-0", "decoder-1", "prefiller-0", "proxy"))
SOCKET = f"/run/pdctl/{CLUSTER}/proxy/control.sock"
AGAIN = "restarted outside pdctl since the last apply"
REPLACED = "python3.11: restart pending"
WAITING = "active activating/auto-restart -> active"


@dataclass(frozen=True)
class Case:
    """`script` on `host`; `told`: id of each resource that drifts -> words that diff must use for it.

    `hit`: instances whose process the script itself ended; `again`: those that apply has to (re)start.
    """

    host: str
    script: str
    told: Mapping[str, str]
    hit: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()


def killed(instance: str) -> str:
    """kill -9, as the kernel does when memory runs out."""
    name = unit(instance)
    kill = f"kill -9 $(systemctl show --value -p MainPID {name})"
    return f"{kill}; until ! systemctl is-active -q {name}; do :; done"


def ended(instance: str, host: str, script: str, words: str) -> Case:
    """An instance that does not run any more and has to be started."""
    return Case(host, script, {f"unit:{unit(instance)}": words}, frozenset({instance}), frozenset({instance}))


def drop_in(name: str, text: str) -> str:
    folder = f"/etc/systemd/system/{name}.d"
    return (
        f"mkdir -p {folder}; printf '[Service]\\n{text}\\n' > {folder}/by-hand.conf; systemctl daemon-reload"
    )


def asked(page: str, **body: list[str]) -> str:
    """What an operator asks of the proxy's control socket, without curl."""
    data = json.dumps(body)
    request = f"POST {page} HTTP/1.0\r\nContent-Length: {len(data)}\r\n\r\n{data}".encode()
    program = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({SOCKET!r}); "
    return f"python3 -c {shlex.quote(program + f's.sendall({request!r}); s.recv(99)')}"


ONE = frozenset({"decoder-1"})
CASES = {
    "edited configuration file": Case(
        "h1",
        f"echo '# by hand' >> {CONFIG}/decoder-1.lmcache.yaml",
        {f"file:{CONFIG}/decoder-1.lmcache.yaml": "content"},
    ),
    "edited configuration file, engine restarted with it": Case(
        "h1",
        f"echo '# by hand' >> {CONFIG}/decoder-1.lmcache.yaml; systemctl restart {D1}",
        {f"file:{CONFIG}/decoder-1.lmcache.yaml": "content", f"unit:{D1}": AGAIN},
        hit=ONE,
        again=ONE,
    ),
    "edited environment file, engine restarted with it": Case(
        "h1",
        f"echo 'NCCL_DEBUG=INFO' >> {CONFIG}/decoder-1.env; systemctl restart {D1}",
        {f"file:{CONFIG}/decoder-1.env": "content", f"unit:{D1}": "environment: NCCL_DEBUG added"},
        hit=ONE,
        again=ONE,
    ),
    "deleted configuration file": Case(
        "h1", f"rm {CONFIG}/proxy.json", {f"file:{CONFIG}/proxy.json": "removed"}
    ),
    "file of another mode": Case(
        "h1", f"chmod 666 {CONFIG}/proxy.json", {f"file:{CONFIG}/proxy.json": "mode 0666 -> 0640"}
    ),
    "file of another owner": Case(
        "h2", f"chown nobody {CONFIG}/decoder-0.env", {f"file:{CONFIG}/decoder-0.env": "owner nobody -> root"}
    ),
    "directory open to all": Case("h2", f"chmod 777 {CONFIG}", {f"directory:{CONFIG}": "mode 0777 -> 0750"}),
    "file replaced by a link": Case(
        "h1",
        f"mv {CONFIG}/proxy.json /tmp; ln -s /tmp/proxy.json {CONFIG}",
        {f"file:{CONFIG}/proxy.json": "content"},
    ),
    "file deleted inside a venv": Case(
        "h2",
        f"rm {SITE}/aiohttp/web.py",
        {"venv:*": "lib/python3.11/site-packages/aiohttp/web.py"},
    ),
    "file edited inside a venv": Case(
        "h2",
        f"echo 'raise SystemExit' >> {SITE}/zmq/__init__.py",
        {"venv:*": "lib/python3.11/site-packages/zmq/__init__.py"},
    ),
    "module slipped into a venv": Case(
        "h2",
        f"echo pass > {SITE}/sitecustomize.py",
        {"venv:*": "lib/python3.11/site-packages/sitecustomize.py"},
    ),
    "venv deleted": Case("h2", "rm -r /opt/pdctl/venvs/simulator-*", {"venv:*": "removed"}),
    "stopped unit": ended("decoder-0", "h2", f"systemctl stop {D0}", "active inactive -> active"),
    "killed decoder": ended("decoder-0", "h2", killed("decoder-0"), WAITING),
    "killed prefiller": ended("prefiller-0", "h1", killed("prefiller-0"), WAITING),
    "killed proxy": ended("proxy", "h1", killed("proxy"), WAITING),
    "killed engine that systemd has started again": Case(
        "h2",
        f"{killed('decoder-0')}; until systemctl is-active -q {D0}; do sleep 0.1; done",
        {f"unit:{D0}": AGAIN},
        hit=frozenset({"decoder-0"}),
    ),
    "instance drained by hand": Case(
        "h1", asked("/drain", instances=["decoder-1"]), {f"unit:{PROXY}": "decoder-1 is drained"}
    ),
    "instance kept apart by hand": Case(
        "h1", asked("/sides", new=["decoder-1"]), {f"unit:{PROXY}": "decoder-1 is kept apart"}
    ),
    "list of instances edited and taken up by hand": Case(
        "h1",
        f"sed -i 's/:7200/:7299/' {CONFIG}/proxy.json; systemctl kill -s HUP {PROXY}; sleep 1",
        {f"file:{CONFIG}/proxy.json": "content", f"unit:{PROXY}": "works with another list of instances"},
    ),
    "control socket removed": Case(
        "h1",
        f"rm {SOCKET}",
        {f"unit:{PROXY}": "its control socket does not answer"},
        again=frozenset({"proxy"}),
    ),
    "unit that failed for good": ended(
        "decoder-0",
        "h2",
        f"{drop_in(D0, 'Restart=no')}; kill -9 $(systemctl show --value -p MainPID {D0}); "
        f"until systemctl is-failed -q {D0}; do :; done; rm -r {UNITS}/{D0}.d; systemctl daemon-reload",
        "active failed -> active",
    ),
    "Python replaced under all that runs": Case(
        "h1",
        # As a package is unpacked: the new file takes the name of the old one, which runs on without any.
        "python=$(readlink -f /opt/pdctl/venvs/simulator-*/bin/python); cp -a $python $python.new; "
        "mv $python.new $python",
        {f"unit:{name}": REPLACED for name in (D1, P0, PROXY)},
        again=frozenset({"decoder-1", "prefiller-0", "proxy"}),
    ),
    "engine restarted by hand": Case("h1", f"systemctl restart {D1}", {f"unit:{D1}": AGAIN}, hit=ONE),
    "environment changed by a drop-in": Case(
        "h1",
        drop_in(D1, "Environment=NCCL_DEBUG=INFO") + f"; systemctl restart {D1}",
        {f"unit:{D1}": f"environment: NCCL_DEBUG added; drop-in {UNITS}/{D1}.d/by-hand.conf"},
        hit=ONE,
        again=ONE,
    ),
    "variable overridden by a drop-in": Case(
        "h1",
        drop_in(
            D1, f"EnvironmentFile=\\nEnvironmentFile={CONFIG}/decoder-1.env\\nUnsetEnvironment=PYTHONHASHSEED"
        )
        + f"; systemctl restart {D1}",
        {f"unit:{D1}": "environment: PYTHONHASHSEED missing"},
        hit=ONE,
        again=ONE,
    ),
    "command line changed by a drop-in": Case(
        "h1",
        drop_in(D1, "ExecStart=\\nExecStart=/bin/sleep infinity") + f"; systemctl restart {D1}",
        {f"unit:{D1}": "argv differs"},
        hit=ONE,
        again=ONE,
    ),
    "disabled unit": Case("h1", f"systemctl disable -q {D1}", {f"unit:{D1}": "enabled no -> yes"}),
    "masked unit": Case(
        "h1",
        f"ln -sf /dev/null {UNITS}/{D1}; systemctl daemon-reload",
        {f"file:{UNITS}/{D1}": "content", f"unit:{D1}": "active masked -> active"},
        again=ONE,
    ),
    "unit file of another mode": Case(
        "h1", f"chmod 600 {UNITS}/{D1}", {f"file:{UNITS}/{D1}": "mode 0600 -> 0644"}
    ),
    "deleted unit file": Case(
        "h1",
        f"rm {UNITS}/{D1}; systemctl daemon-reload",
        {f"file:{UNITS}/{D1}": "removed", f"unit:{D1}": "enabled no -> yes"},
    ),
    "unit file edited, not loaded": Case(
        "h1",
        f"sed -i '/^\\[Service\\]/a Nice=5' {UNITS}/{D1}",
        {f"file:{UNITS}/{D1}": "content", f"unit:{D1}": "needs daemon-reload"},
    ),
    "unit file edited, engine restarted with it": Case(
        "h1",
        f"sed -i '/^\\[Service\\]/a Nice=5' {UNITS}/{D1}; systemctl daemon-reload; systemctl restart {D1}",
        {f"file:{UNITS}/{D1}": "content", f"unit:{D1}": AGAIN},
        hit=ONE,
        again=ONE,
    ),
    "file deleted inside a venv, engine restarted with it": Case(
        "h2",
        f"rm {SITE}/aiohttp/py.typed; systemctl restart {D0}",
        {"venv:*": "lib/python3.11/site-packages/aiohttp/py.typed", f"unit:{D0}": AGAIN},
        hit=frozenset({"decoder-0"}),
        again=frozenset({"decoder-0"}),
    ),
    "home of the service user changed": Case(
        "h1", "sed -i '/^pdctl:/s,/opt/pdctl,/tmp,' /etc/passwd", {"user:pdctl": "home /tmp -> /opt/pdctl"}
    ),
    "service user given a shell": Case(
        "h1",
        "sed -i '/^pdctl:/s,[^:]*$,/bin/bash,' /etc/passwd",
        {"user:pdctl": "shell /bin/bash -> /usr/sbin/nologin"},
    ),
}
