"""What is pdctl's own by its name, also without a record; and what is only named alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.pdctl_namespace import is_own, unit_files
from ansible.module_utils.pdctl_observe import strays
from ansible.module_utils.pdctl_record import Record

OWN = [
    "unit:pdctl-chat-decoder-0.service",
    "unit:pdctl-chat-proxy.service",
    "file:/etc/systemd/system/pdctl-chat-prefiller-12.service",
    "file:/etc/pdctl/chat/decoder-0.yaml",
    "file:/etc/apt/preferences.d/pdctl-chat",
    "directory:/etc/pdctl",
    "directory:/etc/pdctl/chat",
    "directory:/var/cache/pdctl/chat",
    "venv:/opt/pdctl/venvs/proxy-0123",
]
OTHERS = [
    "unit:nginx.service",
    "unit:pdctl-chat-two-decoder-0.service",
    "unit:pdctl-chat-decoder-proxy.service",
    "file:/etc/systemd/system/pdctl-chat-two-proxy.service",
    "file:/etc/systemd/system/nginx.service",
    "file:/etc/pdctl/chat-two/proxy.json",
    "file:/etc/apt/preferences.d/pdctl-chat-two",
    "directory:/opt/pdctl",
    "directory:/etc/pdctl/chat-two",
    "venv:/srv/venvs/mine",
    "user:pdctl",
    "package:libnuma1",
]


def record(tmp_path: Path) -> Record:
    return Record(str(tmp_path / "record.json"), "chat")


@pytest.mark.parametrize("key", OWN)
def test_what_only_pdctl_can_have_put_there_counts_as_made_by_it(tmp_path: Path, key: str) -> None:
    assert is_own(key, "chat") and record(tmp_path).made(key, exists=True)


@pytest.mark.parametrize("key", OTHERS)
def test_what_others_can_have_put_there_was_there_before(tmp_path: Path, key: str) -> None:
    assert not is_own(key, "chat") and not record(tmp_path).made(key, exists=True)


def test_what_the_record_says_goes_first(tmp_path: Path) -> None:
    kept = record(tmp_path)
    kept.rows[OWN[3]] = {"created": False}
    assert not kept.made(OWN[3], exists=True)


def test_unit_files_are_found_by_the_names_of_instances(tmp_path: Path) -> None:
    for name in ("pdctl-chat-decoder-0.service", "pdctl-chat-two-decoder-0.service", "ssh.service"):
        (tmp_path / name).touch()
    assert unit_files("chat", f"{tmp_path}/") == ["pdctl-chat-decoder-0.service"]
    assert unit_files("chat", f"{tmp_path}/none/") == []


def test_strays_are_what_nobody_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"pdctl-chat-decoder-{n}.service" for n in range(3)]
    monkeypatch.setattr("ansible.module_utils.pdctl_observe.unit_files", lambda cluster: names)
    asked = [
        {"kind": "unit", "name": names[0]},
        {"kind": "file", "path": f"/etc/systemd/system/{names[1]}"},
    ]
    assert strays(asked, "chat") == names[2:]
