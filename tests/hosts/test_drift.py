"""Everything that can change behind pdctl's back: told by diff, repaired by apply, nothing else restarted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from tests.hosts.line import CONFIG, UNITS, Line, changed, line_on_hosts, soak, unit

pytestmark = pytest.mark.hosts

SITE = "$(echo /opt/pdctl/venvs/simulator-*)/lib/python3.11/site-packages"
D0, D1, P0, PROXY = (unit(name) for name in ("decoder-0", "decoder-1", "prefiller-0", "proxy"))
AGAIN = "restarted outside pdctl since the last apply"
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


@dataclass
class Table:
    """What the cases showed, printed at the end (`pytest -s`)."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        heads = ("changed outside pdctl", "diff says", "apply did", "restarted by apply")
        lines = [heads, tuple("---" for _ in heads), *self.rows]
        return "\n".join("| " + " | ".join(row) + " |" for row in lines)


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    found = Table()
    yield found
    print(f"\n{found}\n")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with line_on_hosts(tmp_path_factory) as line:
        yield line


@pytest.fixture
def line(hosts: Line) -> Line:
    """Both hosts are as SPEC says when the test begins, and are remembered so."""
    hosts.mend()
    return hosts


# Those that every change is tested with; the others need `make soak`.
FIRST = (
    "edited configuration file",
    "edited configuration file, engine restarted with it",
    "file deleted inside a venv",
    "stopped unit",
    "killed decoder",
    "killed prefiller",
    "environment changed by a drop-in",
    "masked unit",
    "unit file of another mode",
    "unit file edited, engine restarted with it",
    "service user given a shell",
)


@pytest.mark.parametrize(
    "what", [what if what in FIRST else pytest.param(what, marks=soak) for what in CASES]
)
def test_drift_is_told_and_repaired_and_nothing_else_restarts(line: Line, table: Table, what: str) -> None:
    case = CASES[what]
    sound = line.lives()
    line.inside(case.script, case.host)
    hurt = line.lives()
    assert changed(sound, hurt) == case.hit
    done = line.apply("--no-verify", "--json").json
    plan = done["plan"]
    told = {row["id"]: "; ".join(row["what"]) for row in plan["drift"]}
    assert_told(told, case.told)
    assert {row["host"] for row in plan["drift"]} == {case.host}
    assert all(change["drift"] for change in plan["changes"])
    announced = {row["instance"] for row in plan["restarts"]} | (sound.keys() - hurt.keys())
    assert announced == case.again
    repaired = line.lives()
    assert changed(hurt, repaired) == case.again
    assert repaired.keys() == sound.keys()
    assert line.diff()["empty"]
    others = {host for host, entries in done["did"].items() if entries} - {case.host}
    assert others == set()
    table.rows.append(
        (
            what,
            "<br>".join(
                f"{name.split(':', 1)[1].rsplit('/', 1)[-1]}: {words}" for name, words in told.items()
            ),
            "<br>".join(done["did"].get(case.host, ())) or "learned it",
            ", ".join(sorted(changed(hurt, repaired))) or "nothing",
        )
    )


def assert_told(told: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Each wanted resource is told with its words, and no other is; `venv:*` stands for the one venv."""
    names = {("venv:*" if name.startswith("venv:") else name): words for name, words in told.items()}
    assert names.keys() == wanted.keys(), told
    for name, words in wanted.items():
        assert words in names[name], told


def test_variables_that_the_administrator_gives_to_all_services_are_the_hosts_own(line: Line) -> None:
    """No unit could refuse them. Once they are taken back, a process that has them is stale."""
    line.inside(f"systemctl set-environment NCCL_DEBUG=INFO; systemctl restart {D1}")
    assert [row["what"] for row in line.diff()["drift"]] == [[AGAIN]]
    line.apply("--no-verify")
    lives = line.lives()
    assert line.diff()["empty"]
    line.inside("systemctl unset-environment NCCL_DEBUG")
    assert [row["what"] for row in line.diff()["drift"]] == [["environment: NCCL_DEBUG added"]]
    line.apply("--no-verify")
    assert changed(lives, line.lives()) == {"decoder-1"} and line.diff()["empty"]


def test_drift_is_shown_apart_from_changes_on_the_screen(line: Line) -> None:
    line.inside(f"echo '# by hand' >> {CONFIG}/proxy.json")
    shown = line.pdctl("diff").must().out
    drift, changes = shown.split("\n\n")[:2]
    name = f"file {CONFIG}/proxy.json"
    assert drift == f"Changed outside pdctl since the last apply:\n  ! h1  {name}  content"
    assert changes.startswith(f"Changes:\n  h1\n    ~ {name}  content; drift\n") and "-# by hand" in changes


def test_status_counts_drift_and_names_what_does_not_run(line: Line) -> None:
    line.inside(f"systemctl stop {D0}", "h2")
    status = line.pdctl("status", "--json").must(1).json
    assert not status["healthy"] and [row["id"] for row in status["drift"]] == [f"unit:{D0}"]
    rows = {row["instance"]: row for row in status["instances"]}
    assert rows["decoder-0"]["unit"] == "inactive" and not rows["decoder-0"]["healthy"]
    assert rows["decoder-1"]["healthy"]


def test_several_hosts_and_kinds_drift_at_once_and_one_apply_repairs_all(line: Line) -> None:
    sound = line.lives()
    line.inside(f"systemctl stop {D1}; chmod 600 {CONFIG}/proxy.json; rm {CONFIG}/prefiller-0.env")
    line.inside(f"rm -r {CONFIG}; systemctl disable -q {D0}", "h2")
    assert {row["host"] for row in line.diff()["drift"]} == {"h1", "h2"}
    line.apply()
    assert changed(sound, line.lives()) == {"decoder-1"}
    assert line.diff()["empty"]
