"""What apt offers, in words: the version it would take, and the repository that has it."""

from __future__ import annotations

import pytest
from ansible.module_utils.pdctl_offers import Offer, candidate, lack

# As `apt-cache policy` of Debian 12 and Ubuntu 22.04 prints it.
TWO_REPOSITORIES = """\
nvidia-driver-535:
  Installed: 535.183.01-0ubuntu1
  Candidate: 535.216.01-0ubuntu1
  Version table:
     535.216.01-0ubuntu1 500
        500 http://archive.example/ubuntu jammy-updates/restricted amd64 Packages
 *** 535.183.01-0ubuntu1 100
        100 /var/lib/dpkg/status
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            TWO_REPOSITORIES,
            "535.216.01-0ubuntu1 (http://archive.example/ubuntu jammy-updates/restricted amd64)",
        ),
        (TWO_REPOSITORIES.replace("216", "183", 1), "535.183.01-0ubuntu1 (/var/lib/dpkg/status)"),
        ("x:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n", "(none)"),
        ("", "none"),
    ],
)
def test_a_candidate_is_told_with_its_origin(text: str, said: str) -> None:
    assert candidate(text.splitlines()) == said


def test_what_there_is_instead_is_told_by_repository_the_newest_first() -> None:
    here = [Offer("1.10", "http://a ./"), Offer("1.9", "http://a ./"), Offer("1.9", "http://b ./")]
    assert lack("pd-tool", "2.0", here) == (
        "pd-tool 2.0 is in no repository of this host; there are: 1.10, 1.9 (http://a ./), 1.9 (http://b ./)"
    )
    many = [Offer(f"1.{number}", "http://a ./") for number in range(9, 0, -1)]
    assert lack("x", "2", many).endswith("1.9, 1.8, 1.7, 1.6, 1.5, 1.4 (http://a ./) and 3 more")
    assert lack("x", None, []) == "x is in no repository of this host, nor is any other version of it"
