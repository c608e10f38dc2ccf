"""What a UCX says in an engine's journal turns health and proof red; other lines and earlier runs do not."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pdctl.knowledge.transports import UCX_COMPLAINTS
from pdctl.verify.complaints import SCRIPT
from tests.verify.test_proof import GOOD

# As UCX 1.23 and 1.18 print them in an engine.
LACKS = (
    "[1796088979.061064] [gpu01:20358:0]     ucp_context.c:1508 UCX  WARN  transports 'rc_mlx5','cuda_ipc'"
    " are not available, please use one or more of: cma, self, tcp"
)
DEVICE = (
    "[1669031880.738755] [gpu01:588291:0]  ucp_context.c:969  UCX  WARN  network device 'mlx5_9:1' is not"
    " available, please use one or more of: 'eth0'(tcp), 'mlx5_0:1'(ib)"
)
OTHER_VERSION = (
    "[1.1] [gpu01:1:0]  ucp_context.c:1 UCX  WARN  UCP version is incompatible, required: 1.18, actual: 1.12"
)
FINE = "[1.1] [gpu01:1:0]     parser.c:2369 UCX  WARN  unused environment variable: UCX_HOME"
INFO = "INFO 01-02 03:04:05 [nixl.py:1] UCX  WARN is what UCX prints"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{INFO}\n{LACKS}\n{DEVICE}\n", LACKS),
        (f"{DEVICE}\n", DEVICE),
        (f"{OTHER_VERSION}\n", OTHER_VERSION),
        (f"{INFO}\n{FINE}\n", ""),
        ("", ""),
    ],
)
def test_the_first_complaint_of_the_present_run_is_found(
    tmp_path: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text(text)
    for name, body in (
        ("systemctl", "echo 4f1c"),
        ("journalctl", f"echo $* >> {tmp_path}/calls; cat {tmp_path}/text"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    command = ["sh", "-c", SCRIPT, "sh", "pdctl-chat-decoder-0.service", UCX_COMPLAINTS]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == said
    assert "_SYSTEMD_INVOCATION_ID=4f1c" in (tmp_path / "calls").read_text()


def test_a_complaint_is_a_problem_of_the_proof() -> None:
    proof = replace(GOOD, warned={"decoder-0": "UCX  WARN  transports 'rc_mlx5' are not available"})
    assert not proof.ok and "the UCX of decoder-0 says: UCX  WARN  transports 'rc_mlx5'" in proof.problems[0]
