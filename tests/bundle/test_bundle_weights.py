"""What a bundle says of a model's files, from a Hub on loopback."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdctl.bundle.weights import add_model, manifests
from pdctl.errors import BundleError
from tests.hosts import hub
from tests.labs import until

FILES = {
    "config.json": b"{}",
    "model.safetensors": bytes(100_000),
    "pytorch_model.bin": b"1",
    "original/m": b"2",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The Hub's folder; HF_ENDPOINT leads to it."""
    for name, data in FILES.items():
        (tmp_path / "hub/files" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "hub/files" / name).write_bytes(data)
    (tmp_path / "hub/state.json").write_text("{}")
    shutil.copy(hub.__file__, tmp_path / "hub/hub.py")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    words = [sys.executable, tmp_path / "hub/hub.py", "127.0.0.1", str(port)]
    with subprocess.Popen(words) as server:
        until(lambda: answers(port))
        yield tmp_path / "hub"
        server.terminate()


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def test_a_manifest_says_of_each_file_that_engines_load_what_it_must_be(home: Path, tmp_path: Path) -> None:
    item = add_model(f"{hub.REPO}@{hub.COMMIT}", tmp_path / "bundle")
    assert item.file == f"models/manifests/acme--tiny@{hub.COMMIT}.json" and item.version == hub.COMMIT
    text = manifests(tmp_path / "bundle")[(hub.REPO, hub.COMMIT)]
    found = json.loads(text)
    assert found["commit"] == hub.COMMIT and sorted(found["files"]) == ["config.json", "model.safetensors"]
    digest = hashlib.sha256(FILES["model.safetensors"]).hexdigest()
    assert found["files"]["model.safetensors"] == {"size": 100_000, "sha256": digest}


def test_a_branch_is_found_by_its_name_and_by_its_commit(home: Path, tmp_path: Path) -> None:
    add_model(hub.REPO, tmp_path / "bundle")
    assert sorted(manifests(tmp_path / "bundle")) == [(hub.REPO, hub.COMMIT), (hub.REPO, "main")]


@pytest.mark.parametrize(
    ("model", "state", "words"),
    [
        ("acme/tiny@v9", {}, "answers 404 for revision v9 of acme/tiny, with no token in HF_TOKEN"),
        ("acme/tiny", {"token": "t", "gated": True}, "answers 401 for revision main of acme/tiny"),
        ("acme/tiny", {"gone": True}, "was not reached for revision main of acme/tiny"),
    ],
)
def test_what_the_hub_refuses_is_told(
    home: Path, tmp_path: Path, model: str, state: dict[str, object], words: str
) -> None:
    (home / "state.json").write_text(json.dumps(state))
    with pytest.raises(BundleError) as caught:
        add_model(model, tmp_path / "bundle")
    assert words in str(caught.value)
    assert not manifests(tmp_path / "bundle")
