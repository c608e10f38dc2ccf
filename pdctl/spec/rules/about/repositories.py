"""Rules on `apt.repositories`."""

from __future__ import annotations

from pdctl.spec.rules.about import About

KEY = "key: /usr/share/keyrings/vendor.gpg"
FLAT = f"{{name: cuda, uri: 'https://example.net/cuda', {KEY}}}"

REPOSITORIES = (
    About(
        "REPO001",
        "Two repositories have one name",
        "Each has a file of its own on the hosts, called by its name.",
        "Give each its own name.",
        f"apt: {{repositories: [{FLAT}, {FLAT}]}}\n",
    ),
    About(
        "REPO002",
        "A repository's suites and components do not go together",
        "A suite that ends with `/` is a folder with packages, which has no components; any other has at"
        " least one. apt refuses the whole list of sources where one of them is malformed.",
        "Leave `components` out for `./`, or name them.",
        f"apt: {{repositories: [{{name: cuda, uri: 'https://example.net/cuda', suites: [jammy], {KEY}}}]}}\n",
    ),
)
