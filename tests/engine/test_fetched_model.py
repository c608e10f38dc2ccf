"""Real vLLM on CPU with weights that pdctl fetched for it, from a Hub on the host itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdctl.bundle.collect import Runtime, collect, default_folder
from pdctl.lab import Bind, Lab
from pdctl.parts.tiny_model import tiny_model_files
from tests.hosts import hub
from tests.hosts.line import soak
from tests.labs import inside, lab_hosts, until

pytestmark = [pytest.mark.engine, soak, pytest.mark.timeout(900)]
FOLDER = "/opt/pdctl/models/huggingface/hub/models--acme--tiny"
SPEC = {
    "cluster": "fetched",
    "hosts": [{"name": "h1", "address": "198.18.0.10", "interface": "eth0"}],
    "engine": {"kind": "vllm", "device": "cpu"},
    "model": {
        "id": hub.REPO,
        "revision": hub.COMMIT,
        "served_name": "tiny",
        "max_model_len": 2048,
        "kv": {"layers": 2, "kv_heads": 2, "head_dim": 64, "bytes_per_value": 4},
    },
    "secrets": {"HF_TOKEN": {"from_env": "TEST_TOKEN"}},
    "serving": {
        "mode": "aggregated",
        "instances": {"count": 1, "env": {"HF_ENDPOINT": "http://198.18.0.10:8080"}},
    },
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    bundle, home = default_folder(), tmp_path_factory.mktemp("hub")
    collect([Runtime("engine-cpu", "3.11"), Runtime("proxy", "3.11")], bundle, progress=print)
    (home / "files").mkdir()
    for name, data in tiny_model_files().items():
        (home / "files" / name).write_bytes(data)
    (home / "state.json").write_text(json.dumps({"token": "hf_right"}))
    (home / "hub.py").write_bytes(Path(hub.__file__).read_bytes())
    binds = [Bind(str(bundle), "/opt/pdctl/bundle"), Bind(str(home), "/srv/hub")]
    with lab_hosts(1, tmp_path_factory, binds) as lab:
        inside(lab, "h1", "mount -o remount,bind,rw /srv/hub")
        inside(lab, "h1", "systemd-run --unit hub python3 /srv/hub/hub.py 198.18.0.10 8080")
        until(lambda: "8080" in inside(lab, "h1", "ss -Hltn"))
        yield lab


def pdctl(folder: Path, *words: str, token: str = "hf_right") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pdctl", *words],
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TEST_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def test_an_engine_answers_with_weights_that_were_fetched_for_it(lab: Lab, tmp_path: Path) -> None:
    spec = {**SPEC, "ssh": {"config": str(lab.ssh_config)}}
    (tmp_path / "cluster.yaml").write_text(json.dumps(spec))
    refused = pdctl(tmp_path, "apply", "--yes", token="hf_wrong")
    assert refused.returncode == 1 and "answers 403 for acme/tiny" in refused.stderr, refused.stderr
    assert "no engine was started" in refused.stderr and "hf_wrong" not in refused.stderr + refused.stdout
    assert not inside(lab, "h1", "systemctl list-units --plain --no-legend 'pdctl-fetched-server*'")

    done = pdctl(tmp_path, "apply", "--yes")
    assert done.returncode == 0, done.stderr + done.stdout
    unit = "pdctl-fetched-server-0.service"
    pid = inside(lab, "h1", f"systemctl show --property MainPID --value {unit}")
    environment = inside(lab, "h1", f"tr '\\0' '\\n' < /proc/{pid}/environ").splitlines()
    assert "HF_HUB_OFFLINE=1" in environment, "it loads what is there and asks nobody"
    assert hub.COMMIT in inside(lab, "h1", f"ls {FOLDER}/snapshots")

    again = pdctl(tmp_path, "diff", "--exit-code")
    assert again.returncode == 0, again.stdout
    inside(lab, "h1", f"rm $(readlink -f {FOLDER}/snapshots/{hub.COMMIT}/model.safetensors)")
    drift = json.loads(pdctl(tmp_path, "diff", "--json").stdout)["drift"]
    assert [row["what"] for row in drift if "weights" in row["id"]] == [["model.safetensors is gone"]]

    gone = pdctl(tmp_path, "destroy", "--yes")
    assert gone.returncode == 0, gone.stderr + gone.stdout
    assert inside(lab, "h1", "ls /opt/pdctl") == "bundle"
