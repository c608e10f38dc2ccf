"""Weights fetched by real hosts, with the real huggingface_hub, from a Hub in the lab's own network."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pdctl.bundle.download import download
from pdctl.lab import Bind, Lab
from pdctl.parts.lock import load_lock
from tests.hosts import hub
from tests.hosts.cluster import SECRETS, TOKEN
from tests.hosts.plays import Run, directory, file, inside, play, request, user
from tests.labs import lab_hosts, until

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(300)]
HUB = "http://198.18.0.11:8080"
VENV = "/opt/pdctl/venvs/hub-d1"
CACHE = "/srv/shared/hub"  # both hosts have it mounted
FOLDER = f"{CACHE}/models--acme--tiny"
# huggingface_hub and what it needs, out of the lock of the engine for CPUs.
CLIENT = (
    *(
        "huggingface-hub",
        "click",
        "filelock",
        "fsspec",
        "hf-xet",
        "httpx2",
        "httpcore2",
        "h11",
        "anyio",
        "idna",
    ),
    *("truststore", "packaging", "pyyaml", "tqdm", "typing-extensions"),
)
SIZE = 24 << 20  # more than one piece of huggingface_hub's downloads
LARGE = "model.safetensors"


@dataclass
class Site:
    lab: Lab
    bundle: Path
    home: Path  # of the Hub
    venv: dict[str, Any]

    def hub(self, **state: Any) -> None:
        (self.home / "state.json").write_text(json.dumps(state))
        (self.home / "asked").unlink(missing_ok=True)

    def asked(self) -> list[dict[str, str]]:
        path = self.home / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def fetches(self) -> list[str]:
        """The ranges asked of the large file."""
        rows = [row for row in self.asked() if row["method"] == "GET" and row["path"].endswith(LARGE)]
        return [row["range"] for row in rows]

    def apply(self, *hosts: str, **changes: Any) -> Run:
        row = {
            "kind": "weights",
            "path": FOLDER,
            "revision": "main",
            "damage": [],
            "repo": hub.REPO,
            "given": False,
            "tool": VENV,
            "owner": "pdctl",
            "environment": [["HF_ENDPOINT", HUB], ["HF_HUB_DOWNLOAD_TIMEOUT", "5"]],
            "secrets": SECRETS,
            **changes,
        }
        put = [user(), directory("/etc/pdctl"), directory("/etc/pdctl/chat", group="pdctl", mode="0750")]
        put += [file(SECRETS, "", secret=True, mode="0600", content=None, digest="")]
        put += [directory(CACHE, owner="pdctl", group="pdctl", mode="0750"), self.venv, row]
        variables = {
            "pdctl_put": request(put=put),
            "pdctl_secrets": {SECRETS: {"HF_TOKEN": "env:PDCTL_TEST_TOKEN"}},
            "pdctl_weights": True,
            "pdctl_wheels": [str(path.relative_to(self.bundle)) for path in self.bundle.glob("wheels/*")],
            "pdctl_bundle_src": str(self.bundle),
        }
        asked = dict.fromkeys(hosts or ("h1",), variables)
        return play(self.lab, "apply", asked, env={"PDCTL_TEST_TOKEN": changes.get("token", TOKEN)})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    bundle, home, shared = (tmp_path_factory.mktemp(name) for name in ("bundle", "hub", "shared"))
    entries = [each for each in load_lock("engine-cpu", "3.11").entries if each.name in CLIENT]
    entries += load_lock("uv", "3.11").entries
    (bundle / "wheels").mkdir()
    wheels = download(entries, "3.11", bundle / "wheels", lambda text: None)
    lines = [entry.requirement for entry in wheels if entry.name != "uv"]
    venv = {
        "kind": "venv",
        "path": VENV,
        "digest": "d1",
        "python": "3.11",
        "damage": [],
        "requirements": lines,
    }
    venv["wheels"] = [line.split()[0] for line in lines]
    (home / "files").mkdir()
    (home / "files/config.json").write_text("{}")
    (home / "files" / LARGE).write_bytes(hub.tensors(SIZE, data=random.Random(1).randbytes(SIZE)))
    (home / "files/original").mkdir()
    (home / "files/original/model.bin").write_bytes(b"1" * 100_000)
    shutil.copy(hub.__file__, home / "hub.py")
    shared.chmod(0o755)
    with lab_hosts(
        2, tmp_path_factory, [Bind(str(home), "/srv/hub"), Bind(str(shared), "/srv/shared")]
    ) as lab:
        for host in ("h1", "h2"):  # as a network's disk would be
            inside(lab, host, "for each in /srv/hub /srv/shared; do mount -o remount,bind,rw $each; done")
        found = Site(lab, bundle, home, venv)
        found.hub()
        inside(lab, "h2", "systemd-run --unit hub python3 /srv/hub/hub.py 198.18.0.11 8080")
        until(lambda: "8080" in inside(lab, "h2", "ss -Hltn"))
        yield found


def test_a_gated_model_and_a_wrong_revision_are_told_as_what_they_are(site: Site) -> None:
    site.hub(token="hf_another", gated=True)
    run = site.apply("h1", "h2")
    for host in ("h1", "h2"):
        said = run.failure(host)["msg"]
        assert said.startswith(f"model {hub.REPO}: {hub.REPO} is gated, and {HUB} answers 403"), said
        assert said.endswith("no engine was started with it")
    assert {row["token"] for row in site.asked()} == {TOKEN}
    site.hub()
    said = site.apply(revision="v9").failure("h1")["msg"]
    assert f"{HUB} has no revision v9 of {hub.REPO}: correct `model.revision`" in said
    assert TOKEN not in run.output


def test_a_disk_that_is_too_small_is_told_before_the_download(site: Site) -> None:
    site.hub()
    small = "/srv/small/hub"
    inside(
        site.lab,
        "h1",
        "mkdir -p /srv/small && mount -t tmpfs -o size=16m small /srv/small && mkdir /srv/small/hub",
    )
    inside(site.lab, "h1", f"chown pdctl:pdctl {small}")
    said = site.apply(path=f"{small}/models--acme--tiny").failure("h1")["msg"]
    inside(site.lab, "h1", "umount /srv/small")
    whole = (site.home / "files" / LARGE).stat().st_size + 2
    assert f"bytes free; 2 files of {hub.REPO} need {whole} more" in said, said
    assert site.fetches() == []


def test_a_file_that_breaks_off_is_never_shown_and_the_next_apply_fetches_that_one(site: Site) -> None:
    site.hub(cut={LARGE: 11 << 20})
    said = site.apply().failure("h1")["msg"]
    assert f"{HUB} broke off or was not reached for revision main" in said, said
    assert "1 files of it are here, and the next apply goes on with the rest" in said, said
    assert not inside(site.lab, "h1", f"find {FOLDER}/snapshots -name {LARGE}")
    # Within one run it goes on at the byte where it broke off.
    assert site.fetches()[0] == "" and set(site.fetches()[1:]) == {f"bytes={10 << 20}-"}
    site.hub(token=TOKEN)
    run = site.apply("h1", "h2")
    assert run.status == 0, run.output
    # The second host finds it on the shared disk, and reads it once itself.
    assert len(site.fetches()) == 1, site.fetches()
    assert f"{hub.REPO} {'a' * 12}: 0 bytes fetched, 2 files checked" in [*run.did("h1"), *run.did("h2")]
    digest = hashlib.sha256((site.home / "files" / LARGE).read_bytes()).hexdigest()
    for host in ("h1", "h2"):
        path = f"{FOLDER}/snapshots/{hub.COMMIT}/{LARGE}"
        assert inside(site.lab, host, f"runuser -u pdctl -- sha256sum {path}").split()[0] == digest
    assert not inside(site.lab, "h1", f"find {FOLDER} -name 'model.bin'")


def test_a_second_apply_asks_the_hub_nothing(site: Site) -> None:
    site.hub(gone=True)
    run = site.apply("h1", "h2")
    assert run.status == 0 and site.asked() == [], run.output
    assert not [line for host in ("h1", "h2") for line in run.did(host) if "weights" in line]


def test_a_damaged_file_is_fetched_again_and_no_other(site: Site) -> None:
    site.hub()
    blob = inside(site.lab, "h1", f"readlink -f {FOLDER}/snapshots/{hub.COMMIT}/{LARGE}").strip()
    inside(site.lab, "h1", f"printf x | dd of={blob} bs=1 seek=5000000 conv=notrunc status=none")
    said = site.apply().failure("h1")["msg"]
    assert (
        f"1 files were damaged and are removed, so that the next apply fetches them: {LARGE} has another"
        in said
    )
    run = site.apply()
    assert run.status == 0 and len(site.fetches()) == 1, run.output
    assert not [row for row in site.asked() if row["method"] == "GET" and row["path"].endswith("config.json")]


def test_a_host_without_internet_takes_what_lies_there_and_says_what_lacks(site: Site) -> None:
    site.hub(gone=True)
    inside(site.lab, "h1", "rm -rf /opt/pdctl/models/checked")
    run = site.apply(offline=True)
    assert run.status == 0 and site.asked() == [], run.output
    said = site.apply(offline=True, path=f"{CACHE}/models--acme--other", repo="acme/other").failure("h1")[
        "msg"
    ]
    assert "this host is offline and has no revision main in" in said and "`model.path`" in said
