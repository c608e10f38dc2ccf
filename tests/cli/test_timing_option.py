"""`--timing`: where the time went, also when a command fails."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pdctl.cli.finish import timed
from tests.cli.program import pdctl

SPEC = """\
cluster: chat
hosts: [{{name: h1, address: 127.0.0.1}}]
ssh: {{user: nobody, port: {port}, config: ssh_config, known_hosts: known_hosts}}
engine: simulator
model: {{id: pdctl/tiny}}
serving: {{prefillers: {{}}, decoders: {{}}}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Its host refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (tmp_path / "ssh_config").touch()
    path = tmp_path / "cluster.yaml"
    path.write_text(SPEC.format(port=port))
    return path


@pytest.mark.parametrize("command", ["diff", "apply", "verify"])
def test_the_table_comes_on_stderr_after_the_error(command: str, spec: Path) -> None:
    done = pdctl(spec.parent, command, "--timing")
    assert done.returncode == 1
    error, table = done.stderr.split("error: ")[1].split(" part ")
    assert "refuses connections" in error
    first = [line.split("  ")[0].strip() for line in table.splitlines()]
    assert {"load", "resolve", "everything else", "all"} <= set(first)
    assert " part " not in done.stdout


def test_without_the_option_nothing_is_said_of_time(spec: Path) -> None:
    assert "everything else" not in pdctl(spec.parent, "diff").stderr


def test_the_document_gets_the_field_only_when_it_is_wanted() -> None:
    assert timed({"format": "x"}, False) == {"format": "x"}
    assert {"total_s", "parts"} == set(timed({"format": "x"}, True)["timing"])
