"""Real vLLM on CPU between two hosts: KV moves from a prefiller to a decoder, and a broken move is noticed.

One lab and one cluster serve all tests of this file, in their order; the last one breaks the cluster.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pdctl.bundle.collect import Runtime, collect, default_folder
from pdctl.hosts.probe_source import probe_answer, program
from pdctl.lab import Bind, Lab
from tests.examples import desired, spec_path
from tests.labs import inside, lab_hosts

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]


@dataclass(frozen=True)
class Site:
    """A folder with specs, and the hosts they are about."""

    folder: Path
    lab: Lab

    def pdctl(self, *words: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pdctl", *words]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=timeout, check=False
        )

    def ok(self, *words: str) -> str:
        done = self.pdctl(*words)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.ok(*words, "--json"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    bundle = default_folder()
    collect([Runtime("engine-cpu", "3.11"), Runtime("proxy", "3.11")], bundle, progress=print)
    folder = tmp_path_factory.mktemp("site")
    with lab_hosts(2, tmp_path_factory, binds=[Bind(str(bundle), "/opt/pdctl/bundle")]) as lab:
        for name, example in (("cluster.yaml", "lab"), ("aggregated.yaml", "lab-aggregated")):
            text = spec_path(example).read_text()
            (folder / name).write_text(text.replace(".pdctl/lab/ssh_config", str(lab.ssh_config)))
        yield Site(folder, lab)


def test_apply_brings_up_real_engines_and_a_second_one_has_nothing_to_do(site: Site) -> None:
    done = site.json("apply", "--yes")
    assert done["proof"]["ok"] and not done["proof"]["simulated"]
    again = site.json("apply", "--yes", "--no-verify")
    assert again["plan"]["empty"] and again["did"] == {}


def test_no_instance_says_that_it_is_simulated(site: Site) -> None:
    status = site.json("status")
    assert status["healthy"] and not status["simulated"]
    assert {row["version"] for row in status["instances"] if row["role"] != "proxy"} == {"0.32.0"}


def test_units_come_from_the_template_of_the_gpu_clusters(site: Site) -> None:
    """Line by line the same directives as on a GPU host, but for what only GPU hosts have."""
    unit = inside(site.lab, "h2", "cat /etc/systemd/system/pdctl-demo-decoder-0.service")
    golden = next(
        r.content.decode()  # type: ignore[union-attr]
        for key, r in desired("hgx-h100-article").items()
        if key.id == "file:/etc/systemd/system/pdctl-chat-decoder-0.service"
    )
    assert directives(golden) - directives(unit) == Counter(["ExecStartPre"])  # that waits for GPUs
    assert directives(unit) - directives(golden) == Counter()


def directives(unit: str) -> Counter[str]:
    return Counter(line.split("=")[0] for line in unit.splitlines() if "=" in line and line[0] != "#")


def test_the_ucx_of_an_engine_says_what_it_has_and_what_it_lacks(site: Site) -> None:
    """That of the nixl wheel, which comes without `ucx_info`: its library is asked, as the engine's user."""
    (python,) = inside(site.lab, "h2", "ls /opt/pdctl/venvs/engine-cpu-*/bin/python").split()
    row = {"python": python, "user": "pdctl", "env": {"UCX_TLS": "rc_mlx5,cuda_ipc,tcp"}}
    asked = program(
        ("pdctl_rows", "pdctl_observe_ucx"), ("pdctl_observe_ucx", "ucx_facts"), {"decoder-0": row}
    )
    found = probe_answer(inside(site.lab, "h2", f"python3 - <<'EOT'\n{asked}\nEOT"))["decoder-0"]
    assert found["source"].startswith("UCX 1.") and found["source"].endswith("of the nixl wheel")
    assert "lo" in found["transports"]["tcp"] and "rc_mlx5" not in found["transports"]
    (warning,) = found["warnings"]
    assert warning.startswith("transports 'rc_mlx5','cuda_ipc' are not available, please use one or more of")


def test_kv_moves_between_hosts_and_text_equals_an_undisaggregated_engine(site: Site) -> None:
    site.ok("apply", "aggregated.yaml", "--yes")
    proof = site.json("verify", "--against", "aggregated.yaml", "--prompts", "6")
    assert proof["ok"] and proof["reference"] == "cluster `plain`"
    assert all(e["equal"] and e["text"] for e in proof["exchanges"])
    assert len({e["text"] for e in proof["exchanges"]}) == 6
    assert proof["transfer"]["moved"] >= proof["transfer"]["expected"] > 0


def test_a_quick_bench_fails_no_request_and_is_not_marked_simulated(site: Site) -> None:
    result = site.json("bench", "--quick")
    assert result["completed"] == result["num_prompts"] and result["failed"] == 0
    assert result["pdctl"]["simulated"] is False and result["p99_itl_ms"] > 0


def test_the_rendered_script_drives_vllms_own_bench(site: Site) -> None:
    site.ok("render", "--out", "project")
    script = base64.b64encode((site.folder / "project/bench/vllm-bench-serve.sh").read_bytes()).decode()
    words = "--num-prompts 4 --random-output-len 8 --result-filename out.json"
    said = inside(
        site.lab,
        "h1",
        f"cd /root; echo {script} | base64 -d > b.sh; sh b.sh {words} >&2; cat results/out.json",
    )
    result = json.loads(said)
    assert (result["completed"], result["model_id"]) == (4, "tiny")
    assert result["tokenizer_id"] == "/opt/pdctl/models/tiny" and result["p99_itl_ms"] > 0
    (site.folder / "vllm.json").write_text(said)
    assert "completed 4 of 4" in site.ok("bench", "--judge", "vllm.json")


def test_the_twin_goes_and_leaves_the_shared_runtime_to_the_other(site: Site) -> None:
    site.ok("destroy", "aggregated.yaml", "--yes")
    assert site.json("diff")["empty"]


def test_without_the_cpu_connector_engines_are_healthy_and_verify_fails(site: Site) -> None:
    for host, instance in (("h1", "prefiller-0"), ("h2", "decoder-0")):
        inside(
            site.lab,
            host,
            "rm -r /opt/pdctl/venvs/engine-cpu-*/lib/python3.11/site-packages/pdctl_cpu_connector*",
        )
        inside(site.lab, host, f"systemctl restart pdctl-demo-{instance}")
    for host, port in (("h1", 7100), ("h2", 7200)):
        address = "198.18.0.10" if host == "h1" else "198.18.0.11"
        inside(site.lab, host, WAIT.format(url=f"http://{address}:{port}/health"))
    refused = site.pdctl("verify", "--prompts", "1")
    assert refused.returncode == 1
    # The proxy waits for a notice that never comes; were it to go on, the counters would not move.
    told = refused.stdout + refused.stderr
    assert "the KV of this prompt did not arrive" in told or "the KV did not move" in told
    drift = site.json("diff")["drift"]
    assert any(d["id"].startswith("venv:/opt/pdctl/venvs/engine-cpu-") for d in drift)


# Up to five minutes for an engine to load; the host has python3 but no curl.
WAIT = """python3 - <<'END'
import time, urllib.request
end = time.monotonic() + 300
while True:
    try:
        urllib.request.urlopen("{url}", timeout=2)
        break
    except OSError:
        assert time.monotonic() < end
        time.sleep(0.5)
END"""


@pytest.fixture(scope="module", autouse=True)
def room(tmp_path_factory: pytest.TempPathFactory) -> None:
    free = shutil.disk_usage(tmp_path_factory.getbasetemp()).free
    if free < 12 * 2**30:
        pytest.skip(f"the engine's environments need 12 GiB of disk, {free >> 30} GiB are free")
