"""What is shown of the difference of a file."""

from __future__ import annotations

import pytest

from pdctl.views.hunks import hunks

HEADS = ("--- on the host", "+++ wanted")
REVISION = ("-Environment=PDCTL_REVISION=0123456789abcdef", "+Environment=PDCTL_REVISION=fedcba9876543210")


@pytest.mark.parametrize("words", ["HF_TOKEN: *** -> ***", "binary file differs"])
def test_what_is_said_in_the_place_of_a_diff_is_shown(words: str) -> None:
    assert hunks((words,), 80) == [words]


def test_a_change_of_nothing_but_the_revision_is_not_shown() -> None:
    assert hunks((*HEADS, "@@ -1,2 +1,2 @@", " [Service]", *REVISION), 80) == []


def test_without_a_diff_there_is_nothing_to_show() -> None:
    assert hunks((), 80) == []
