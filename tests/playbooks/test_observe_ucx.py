"""What a UCX offers, as its library and `ucx_info` print it; asked with the engine's own variables."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.pdctl_observe_ucx import ucx_facts

# As UCX 1.23 of nixl-cu12 1.5.1 prints a context.
CONTEXT = """\
UCX 1.23.0 of the nixl wheel
#
# UCP context
#
#     component 0  :  self
#            md 1  :  component 1  tcp
#
#      resource 0  :  md 0  dev 0  flags -- self/memory
#      resource 1  :  md 1  dev 1  flags -- tcp/eth0
#      resource 2  :  md 1  dev 2  flags -- tcp/lo
#
"""
SAID = (
    "[1796088979.061064] [vm:20358:0]     ucp_context.c:1508 UCX  WARN  transports 'rc_mlx5','cuda_ipc' are"
    " not available, please use one or more of: cma, self, tcp\n"
)
INFO = """\
# Memory domain: mlx5_0
#     Component: ib
#      Transport: rc_mlx5
#         Device: mlx5_0:1
#           Type: network
#      Transport: cuda_ipc
#         Device: cuda
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """In the place of an environment's Python: prints a context, and warns of any UCX_TLS."""
    path = tmp_path / "python"
    (tmp_path / "context").write_text(CONTEXT)
    (tmp_path / "said").write_text(SAID)
    path.write_text(f'#!/bin/sh\ncd {tmp_path}; [ -z "$UCX_TLS" ] || cat said\ncat context\nenv >> env\n')
    path.chmod(0o755)
    return path


def test_a_library_is_asked_for_all_it_has_and_for_what_it_says_of_the_list(python: Path) -> None:
    env = {"UCX_TLS": "rc_mlx5,cuda_ipc,tcp", "CUDA_VISIBLE_DEVICES": "0"}
    row = {"python": str(python), "user": "nobody-of-that-name", "env": env}
    found = ucx_facts({"prefiller-0": row, "decoder-0": row})
    assert found["prefiller-0"] == found["decoder-0"]
    assert found["prefiller-0"] == {
        "source": "UCX 1.23.0 of the nixl wheel",
        "transports": {"self": ["memory"], "tcp": ["eth0", "lo"]},
        "warnings": [
            "transports 'rc_mlx5','cuda_ipc' are not available, please use one or more of: cma, self, tcp"
        ],
    }
    seen = (python.parent / "env").read_text()
    assert seen.count("CUDA_VISIBLE_DEVICES=0") == 2 and seen.count("UCX_TLS=") == 1  # asked once for both
    assert "HOME=" not in seen


def test_ucx_info_is_asked_where_the_environment_has_no_library(tmp_path: Path) -> None:
    (tmp_path / "info").write_text(INFO)
    program = tmp_path / "ucx_info"
    program.write_text(
        f"#!/bin/sh\n[ $1 = -v ] && {{ echo '# Library version: 1.19.0'; exit; }}\ncat {tmp_path}/info\n"
    )
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    found = ucx_facts({"p": {"python": "/nonexistent/python", "user": "nobody-of-that-name", "env": env}})
    assert found["p"]["source"] == "1.19.0"
    assert found["p"]["transports"] == {"rc_mlx5": ["mlx5_0:1"], "cuda_ipc": ["cuda"]}


def test_an_engine_that_is_not_installed_says_nothing(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path)}
    assert ucx_facts({"p": {"python": "/nonexistent/python", "user": "x-y-z", "env": env}}) == {}
