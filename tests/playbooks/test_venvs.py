"""How hosts have uv install an environment: by hash alone where every line has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import pdctl_venvs

HASH = "--hash=sha256:" + "0" * 64
UV = '#!/bin/sh\necho "$@" >> "$HOME/said"\n'


def said(tmp_path: Path, **row: Any) -> str:
    """The words of `uv pip install`."""
    build = tmp_path / "build"
    build.mkdir()
    program = build / "uv"
    program.write_text(UV)
    program.chmod(0o755)
    named = {"path": str(tmp_path / "v"), "python": "3.12", "digest": "d", **row}
    pdctl_venvs.install(named, str(tmp_path / "bundle"), str(program), str(tmp_path / "v.new"))
    return (build / "said").read_text().splitlines()[-1]


@pytest.mark.parametrize(
    ("row", "has", "lacks"),
    [
        ({"requirements": [f"vllm==0.32.0 {HASH}"]}, {"--no-deps", "--require-hashes"}, {"--no-index"}),
        (
            {"requirements": ["vllm==0.32.0", f"torch==2.13.0 {HASH}"]},
            {"pip"},
            {"--no-deps", "--require-hashes"},
        ),
        (
            {"requirements": [f"aiohttp==3.14.5 {HASH}"], "wheels": ["aiohttp==3.14.5"]},
            {"--no-deps", "--require-hashes", "--no-index"},
            set(),
        ),
    ],
    ids=["a lock for GPUs", "bare pins", "the bundle"],
)
def test_what_is_locked_is_installed_by_hash_and_nothing_else(
    tmp_path: Path, row: dict[str, Any], has: set[str], lacks: set[str]
) -> None:
    words = set(said(tmp_path, **row).split())
    assert has <= words and not lacks & words
