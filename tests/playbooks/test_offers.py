"""What apt offers, in words: the version it would take, and the repository that has it."""

from __future__ import annotations

import pytest
from ansible.module_utils.pdctl_offers import candidate

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
