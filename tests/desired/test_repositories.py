"""apt's sources on the hosts: one file for each repository, with its key, as apt itself reads it."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.spec.load import inspect
from pdctl.state import File
from pdctl.topology.judge import judge
from tests.desired.rendered import rendered
from tests.spec.breaking import sound_but_for

KEY = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----
Comment: of a vendor

mDMEZ0abcBYJKwYBBAHaRw8BAQdA
=abcd
-----END PGP PUBLIC KEY BLOCK-----
"""
FLAT = {"name": "doca", "uri": "https://mirror.example.net/doca/3.0.0/", "key": KEY}
SUITED = {
    "name": "ubuntu",
    "uri": "http://mirror.example.net:8080/ubuntu",
    "suites": ["jammy", "jammy-updates"],
    "components": ["main", "restricted"],
    "key": "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
}
FOLDER = "/etc/apt/sources.list.d/"


def sources(*repositories: dict[str, Any]) -> dict[str, str]:
    found = rendered(apt={"repositories": list(repositories)})
    files = [each for each in found.state.values() if isinstance(each, File) and FOLDER in each.path]
    return {each.path.removeprefix(FOLDER): (each.content or b"").decode() for each in files}


def fields(text: str) -> dict[str, str]:
    """deb822: `Name: value`; lines that go on begin with a space, `.` is an empty one (sources.list(5))."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith(" "):
            found[name].append("" if line == " ." else line[1:])
        elif not line.startswith("#"):
            name, _, value = line.partition(":")
            found[name] = [value.strip()] if value.strip() else []
    return {name: "\n".join(lines) for name, lines in found.items()}


def test_each_repository_has_a_file_of_its_own_with_its_key() -> None:
    found = sources(FLAT, SUITED)
    assert fields(found["pdctl-chat-doca.sources"]) == {
        "Types": "deb",
        "URIs": "https://mirror.example.net/doca/3.0.0/",
        "Suites": "./",
        "Architectures": "amd64",
        "Signed-By": KEY.strip(),
    }
    suited = fields(found["pdctl-chat-ubuntu.sources"])
    assert (suited["Suites"], suited["Components"]) == ("jammy jammy-updates", "main restricted")
    assert suited["Signed-By"] == "/usr/share/keyrings/ubuntu-archive-keyring.gpg"


def test_one_for_another_system_is_left_out() -> None:
    assert sources({**FLAT, "os": ["ubuntu-24.04"]}) == {}
    assert len(sources({**FLAT, "os": ["ubuntu-22.04"]})) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("uri: https://me:hunter2@example.net/x", "must hold no password"),
        ("uri: https://example.net/x y", "is no address of a repository"),
        ('uri: "https://example.net/x\\nTrusted: yes"', "is no address of a repository"),
        ("uri: ftp://example.net/x", "is no address of a repository"),
        ("key: vendor.gpg", "must be a public key as text"),
        ('key: "-----BEGIN PGP PRIVATE KEY BLOCK-----\\n"', "must be the public key"),
        (f"key: {KEY.replace('mDME', '$(id)')!r}", "must be a public key as text"),
        ("suites: [-o]", "begins with `-`"),
    ],
)
def test_what_apt_would_trip_over_is_refused(words: str, says: str) -> None:
    field, _, value = words.partition(": ")
    flat = {
        "uri": "https://example.net/x",
        "key": "/usr/share/keyrings/x.gpg",
        "suites": "[./]",
        field: value,
    }
    rows = ", ".join(f"{name}: {text}" for name, text in flat.items())
    judged = judge(inspect(sound_but_for(f"apt: {{repositories: [{{name: x, {rows}}}]}}\n"), "c.yaml"))
    (error,) = judged.errors
    assert says in str(error) and "hunter2" not in str(error)
