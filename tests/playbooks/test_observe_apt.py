"""What stands in the way of packages, as a host tells it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.module_utils.pdctl_observe_apt import sources_to_come

SOURCE = {"kind": "file", "path": "/etc/apt/sources.list.d/pdctl-chat-doca.sources", "digest": "sha256:1"}


@pytest.mark.parametrize(
    ("wanted", "found", "awaited"),
    [
        ([], [], False),
        ([SOURCE], [], True),
        ([SOURCE], [SOURCE], False),
        ([SOURCE], [{**SOURCE, "digest": "sha256:2"}], True),
        ([{**SOURCE, "path": "/etc/apt/preferences.d/pdctl-chat"}], [], False),
    ],
)
def test_lists_tell_nothing_of_a_repository_that_an_apply_adds(
    wanted: list[dict[str, Any]], found: list[dict[str, Any]], awaited: bool
) -> None:
    assert sources_to_come(wanted, found) is awaited
