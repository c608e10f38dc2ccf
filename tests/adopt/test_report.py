"""The report: what was found, what is to be stopped first, and text of hosts shown as it is."""

from __future__ import annotations

import io

from rich.console import Console

from pdctl.adopt.report import report
from pdctl.views.adopt import show_report
from tests.adopt.handmade import decoder, drafted, front, host, prefiller


def shown(*processes: object) -> str:
    stream = io.StringIO()
    document = report(drafted(host(*processes)), "cluster.yaml")  # type: ignore[arg-type]
    show_report(document, Console(file=stream, width=1000))
    return stream.getvalue()


def test_everything_found_is_listed_with_its_host_process_gpus_and_versions() -> None:
    lines = shown().splitlines()
    assert lines[:2] == [
        "Found",
        "  h1             10.0.0.1  ubuntu 22.04  8 x NVIDIA H100 80GB HBM3  driver 580.95.05",
    ]
    assert lines[2].startswith("  prefiller-0    h1:7100  vllm-prefill.service  TP 1  GPUs 0  vllm 0.11.0")
    assert lines[4] == "  proxy          h1:9100  pd-proxy.service  (LMCache's sample proxy)"


def test_text_of_a_host_is_no_markup() -> None:
    text = shown(prefiller("--seed [/red] --chat-template [bold]x"), decoder("--seed 1"), front())
    assert "Contradictions" not in text and "[/red]" not in text
    text = shown(prefiller("-pp [/red]"), decoder(), front())
    assert "[-pp [/red]]" in text


def test_what_holds_gpus_and_ports_is_stopped_in_the_way_it_was_started() -> None:
    running = [
        prefiller(unit="vllm-p.service"),
        decoder(unit="", pid=77),
        decoder("--port 7201", unit="run-r1.service", pid=78, environment={"CUDA_VISIBLE_DEVICES": "6"}),
        decoder(
            "--port 7202",
            unit="d.service",
            user_unit=True,
            user="ann",
            pid=79,
            environment={"CUDA_VISIBLE_DEVICES": "5"},
        ),
        front(),
    ]
    assert report(drafted(host(*running)), None)["stop_first"] == {
        "h1": [
            "systemctl disable --now vllm-p.service",
            "kill 77",
            "systemctl stop run-r1.service",
            "systemctl --user -M ann@ disable --now d.service",
            "systemctl disable --now pd-proxy.service",
        ]
    }


def test_units_that_are_pdctls_own_are_not_to_be_stopped() -> None:
    running = [
        prefiller(unit="pdctl-chat-prefiller-0.service"),
        decoder(unit="pdctl-chat-decoder-0.service"),
        front(),
    ]
    found = drafted(host(*running))
    assert found.values["cluster"] == "chat" and report(found, None)["stop_first"] == {}
