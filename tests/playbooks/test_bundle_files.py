"""The files of a bundle, also while somebody fills it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.pdctl_observe_facts import bundle_files


def test_files_are_told_with_their_sizes_by_their_path_below_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/one.whl").write_bytes(b"12345")
    assert bundle_files(str(tmp_path)) == {"wheels/one.whl": 5}
    assert bundle_files(str(tmp_path / "none")) == {}


def test_a_file_that_goes_while_one_looks_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A download is renamed when it is whole: its first name was seen, and is gone."""
    (tmp_path / "whole.whl").write_bytes(b"12345")
    walk = os.walk

    def walked(top: str) -> Iterator[Any]:
        for folder, folders, names in walk(top):
            yield folder, folders, [*names, ".partial-whole.whl"]

    monkeypatch.setattr(os, "walk", walked)
    assert bundle_files(str(tmp_path)) == {"whole.whl": 5}
