"""known_hosts as sshd(8) describes it, against what ssh-keygen itself finds."""

from __future__ import annotations

import base64
import re
import subprocess
from pathlib import Path

import pytest

from pdctl.errors import UnreachableError
from pdctl.hosts.known_hosts import Shown, check, entries, fingerprint, known_name

KEY = base64.b64encode(b"one key").decode()
OTHER = base64.b64encode(b"other key").decode()

LINES = [
    ("h1", "h1", True),
    ("h1,10.0.0.1", "10.0.0.1", True),
    ("H1.Example", "h1.example", True),
    ("h1", "h10", False),
    ("*.rack", "h1.rack", True),
    ("*.rack", "rack", False),
    ("h?", "h1", True),
    ("h*,!h1", "h1", False),
    ("h*,!h1", "h2", True),
    ("[h1]:2222", "[h1]:2222", True),
    ("[h1]:2222", "h1", False),
    ("h1", "[h1]:2222", False),
    ("[*.rack]:2222", "[h1.rack]:2222", True),
    ("[h1]", "h", False),
    ("[fd00::1]:22", "fd00::1", False),
]


@pytest.mark.parametrize(("patterns", "name", "matches"), LINES)
def test_names_match_as_the_manual_says(tmp_path: Path, patterns: str, name: str, matches: bool) -> None:
    file = tmp_path / "kh"
    file.write_text(f"{patterns} ssh-ed25519 {KEY}\n")
    assert bool(entries([str(file)], name)) is matches


@pytest.mark.parametrize("name", ["h1", "[h1]:2222", "10.0.0.1"])
def test_ssh_keygen_finds_the_same_hashed_lines(tmp_path: Path, name: str) -> None:
    file = tmp_path / "kh"
    for host in ("h1", "[h1]:2222", "10.0.0.1", "other"):
        key = tmp_path / host.replace("[", "").replace("]:", "-")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        with file.open("a") as lines:
            lines.write(f"{host} {Path(f'{key}.pub').read_text()}")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, capture_output=True)
    said = subprocess.run(
        ["ssh-keygen", "-F", name, "-f", file], capture_output=True, text=True, check=True
    ).stdout
    assert [f"line {entry.line}" in said for entry in entries([str(file)], name)] == [True]


def test_comments_bad_lines_and_missing_files_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "kh"
    file.write_text(
        f"# h1 ssh-ed25519 {KEY}\n\nh1\nh1 ssh-ed25519 @@@\nh1 ssh-ed25519 {KEY} comment\n"
        f"@cert-authority h1 ssh-rsa {KEY}\n"
    )
    found = entries([str(tmp_path / "none"), str(file)], "h1")
    assert [(entry.line, entry.key) for entry in found] == [(5, b"one key")]


def test_a_port_other_than_22_is_part_of_the_name() -> None:
    assert known_name("H1", 22) == "h1"
    assert known_name("h1", 2222) == "[h1]:2222"


def test_one_of_several_keys_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "kh"
    file.write_text(f"h1 ssh-ed25519 {OTHER}\nh1 ssh-ed25519 {KEY}\n")
    check(entries([str(file)], "h1"), _shown())


def test_a_revoked_key_is_refused_even_if_it_is_known(tmp_path: Path) -> None:
    file = tmp_path / "kh"
    file.write_text(f"h1 ssh-ed25519 {KEY}\n@revoked * ssh-ed25519 {KEY}\n")
    with pytest.raises(UnreachableError, match=f"revoked by {file}:2"):
        check(entries([str(file)], "h1"), _shown())


def test_a_revoked_key_of_another_is_not_this_hosts(tmp_path: Path) -> None:
    file = tmp_path / "kh"
    file.write_text(f"@revoked * ssh-ed25519 {OTHER}\n")
    with pytest.raises(UnreachableError, match="is not known") as caught:
        check(entries([str(file)], "h1"), _shown())
    assert caught.value.hint == "learn it so"


def test_a_changed_key_is_compared_with_the_one_of_its_type(tmp_path: Path) -> None:
    file = tmp_path / "kh"
    file.write_text(f"h1 ssh-rsa {OTHER}\nh1 ssh-ed25519 {OTHER}\n")
    with pytest.raises(
        UnreachableError, match=f"{file}:2 says ssh-ed25519 {re.escape(fingerprint(b'other key'))}"
    ) as caught:
        check(entries([str(file)], "h1"), _shown())
    assert f"ssh-keygen -f {file} -R 'h1'" in str(caught.value.hint)


def _shown() -> Shown:
    return Shown("ssh-ed25519", b"one key", name="h1", learn="learn it so", where="h1")
