"""The plan screens of edits that operators make, as reviewed: `make golden` accepts new ones."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pdctl.plan.document import Details, drift_document, plan_document
from pdctl.plan.effects import Effect
from pdctl.plan.foreign import Foreign
from pdctl.plan.model import NeedsReboot, Reboots
from pdctl.views.hunks import hunks
from pdctl.views.plan import show_drift, summary
from tests.plan.changes import SPEC, edit
from tests.views.screens import screen

GOLDEN = Path(__file__).parents[1] / "golden" / "screens"
STALE = SPEC.replace("engine: simulator", "engine: {kind: simulator, simulator: {stale_peers: true}}")
GPUS = """\
cluster: chat
hosts:
  - {name: gpu01, address: 10.0.0.11, gpus: {count: 8, model: H100-SXM-80GB}}
stack: article-2025
model: {id: openai/gpt-oss-120b}
serving:
  prefillers: {count: 1, tensor_parallel: 2}
  decoders: {count: 1, tensor_parallel: 2}
"""
DRIVER = "580.105.08-0ubuntu0.22.04.1"
PLACED = SPEC.replace(
    "    count: 2\n    max_num_seqs: 64\n",
    "    placement:\n      - {host: h1}\n      - {host: h2, ports: {http: 7201}}\n    max_num_seqs: 64\n",
)
EDITS = {
    "one-decoders-port": (PLACED, [("http: 7201", "http: 7211")]),
    "a-setting-of-all-decoders": (SPEC, [("max_num_seqs: 64", "max_num_seqs: 128")]),
    "kv-buffer-with-stale-peers": (STALE, [("chunk_size: 32", "chunk_size: 32, buffer_bytes: 33554432")]),
    "a-decoder-more": (SPEC, [("count: 2\n    max", "count: 3\n    max")]),
    "a-prefiller-less": (SPEC, [("count: 2\n  decoders", "count: 1\n  decoders")]),
    "stack-on-gpus": (
        GPUS,
        [
            (
                "stack: article-2025",
                f"stack: {{base: article-2025, driver: {DRIVER}, fabricmanager: {DRIVER}}}",
            )
        ],
    ),
    "the-proxys-port": (SPEC, [("serving:\n", "serving:\n  proxy: {ports: {http: 9200}}\n")]),
}
DIGESTS = (
    (re.compile(r"(venvs/[a-z-]+-|(?:simulator|proxy|engine-cuda)-)[0-9a-f]{12}"), r"\1<digest>"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "<revision>"),
)


@pytest.mark.parametrize("name", EDITS)
def test_the_screen_is_as_reviewed(name: str, request: pytest.FixtureRequest) -> None:
    spec, pairs = EDITS[name]
    text = screen(edit(*pairs, spec=spec, earlier=spec))
    for pattern, replacement in DIGESTS:
        text = pattern.sub(replacement, text)
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("--accept"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text, "`make golden` accepts it after a look"
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", EDITS)
def test_nothing_is_cut_or_wrapped_in_a_pipe(name: str) -> None:
    spec, pairs = EDITS[name]
    done = edit(*pairs, spec=spec, earlier=spec)
    text = screen(done, columns=None)
    assert "…" not in text and "\x1b" not in text
    for change in done.plan.changes:
        for line in change.text[2:]:
            assert (
                line.startswith("@@")
                or "PDCTL_REVISION" in line
                or line[:1] == " "
                or line in text
                or ("the same as" in text)
            )


def test_what_two_instances_have_in_common_is_shown_once() -> None:
    text = screen(edit(("max_num_seqs: 64", "max_num_seqs: 128")))
    assert text.count("--max-num-seqs 128") == 1 and "decoder-0  [1]  the same as decoder-1 on h1\n" in text


def test_an_instance_that_changes_otherwise_is_shown_on_its_own() -> None:
    spec = PLACED
    text = screen(
        edit(("http: 7201", "http: 7211"), ("max_num_seqs: 64", "max_num_seqs: 9"), spec=spec, earlier=spec)
    )
    assert "the same as" not in text and text.count("--max-num-seqs 9") == 2


def test_a_unit_that_only_has_another_revision_shows_no_text() -> None:
    text = screen(edit(("chunk_size: 32", "chunk_size: 64")))
    assert "PDCTL_REVISION" not in text and "pdctl-chat-decoder-1.service  revision\n" in text


def test_without_texts_the_lines_of_the_spec_are_named_nevertheless() -> None:
    text = screen(edit(("max_num_seqs: 64", "max_num_seqs: 128")), diffs=False)
    assert "[1] serving.decoders.max_num_seqs 64 -> 128  (cluster.yaml:12)\n" in text and "@@" not in text


def test_a_field_that_no_host_is_told_of_says_so() -> None:
    text = screen(edit(("model:", "slo: {ttft_ms: 300}\nmodel:"), ("64", "128")))
    assert re.search(r"\[2\] slo unset -> .*no host is told of it\)", text)


def test_a_long_rollout_is_told_by_its_beginning_and_its_end() -> None:
    spec = SPEC.replace("count: 2\n    max", "count: 20\n    max")
    done = edit(("max_num_seqs: 64", "max_num_seqs: 128"), spec=spec, earlier=spec)
    steps = len(done.plan.steps)
    text = screen(done)
    assert steps > 30 and f"     ... {steps - 16} more steps like these ...\n" in text
    assert "\n  12. " in text and "\n  13. " not in text and f"\n  {steps}. " in text


def test_an_empty_plan_is_one_line() -> None:
    done = edit()
    assert screen(done, details=Details()) == "Nothing to do: `chat` is as its spec says\n"
    assert summary(plan_document(done.plan)) == "Nothing to do: `chat` is as its spec says"


def test_what_is_not_pdctls_own_is_shown_apart() -> None:
    from io import StringIO

    from rich.console import Console

    details = Details(foreign=(Foreign("port", "7200", "decoder-0", "h1", 9, "nginx", "root"),))
    file = StringIO()
    show_drift(drift_document(edit().plan, details), Console(file=file, width=200))
    assert file.getvalue() == (
        "Also seen, and left as it is:\n  ! h1  port 7200 (decoder-0) is held by nginx, pid 9 of root\n\n"
        "`chat`: 1 more to look at\n"
    )


LONG = "ExecStart=/opt/python -m serve " + " ".join(f"--flag-{i} {i}" for i in range(20)) + " --host 10.0.0.1"


def test_what_follows_and_what_a_reboot_needs_first_is_shown_before_the_summary() -> None:
    kernel = Foreign("kernel", "6.8.0-64-generic", host="h1", words="kernel 6.8.0-64-generic boots next")
    waits = Foreign("reboot", "nouveau", host="h2", words="nouveau is loaded -> reboot needed")
    details = Details(
        effects=(
            Effect("h1", "/etc/modprobe.d/x.conf", "update-initramfs -u -k all"),
            Effect("h2", "/etc/modprobe.d/x.conf", "update-initramfs -u -k all", owed=True),
        ),
        foreign=(kernel, waits),
    )
    need = NeedsReboot("h1", "nouveau", "loaded -> forbidden", "it holds the GPUs until then")
    done = edit(("64", "128"), spec=SPEC)
    done = replace(done, plan=replace(done.plan, reboots=Reboots((need,))))
    lines = screen(done, columns=None, details=details).splitlines()
    begin = lines.index("> h1: update-initramfs -u -k all  /etc/modprobe.d/x.conf: it changes")
    assert lines[begin + 1].endswith("/etc/modprobe.d/x.conf: an interrupted apply has left it out")
    assert lines[begin + 2].startswith("! h1 needs a reboot: nouveau loaded -> forbidden; it holds")
    assert lines[begin + 3].strip() == "! do not reboot h1 before this: kernel 6.8.0-64-generic boots next"
    assert lines[begin + 4].strip().startswith("> `pdctl apply --allow-reboot`, or serving.rollout.")
    assert "2 to reboot" in summary(plan_document(done.plan, details))


def test_a_host_that_waits_for_a_reboot_is_not_as_its_spec_says() -> None:
    done = edit(spec=SPEC)
    waits = Details(foreign=(Foreign("reboot", "nvidia", host="h1", words="-> reboot needed"),))
    assert done.plan.empty and plan_document(done.plan)["empty"]
    document = plan_document(done.plan, waits)
    assert not document["empty"] and summary(document) == "Plan for `chat`: 1 to reboot"


def test_long_lines_that_replace_one_another_show_what_differs() -> None:
    diff = ["--- a", "+++ b", "@@ -1 +1 @@", f"-{LONG}", f"+{LONG.replace('--flag-7 7', '--flag-7 70')}"]
    assert hunks(diff, 60)[1:] == [
        "-ExecStart=… --flag-6 6 --flag-7 7 …",
        "+ExecStart=… --flag-6 6 --flag-7 70 …",
    ]
    assert hunks(diff, 1000) == diff[2:]


@pytest.mark.parametrize("end", ["", " --more"])
def test_a_difference_at_either_end_of_a_long_line_is_shown(end: str) -> None:
    diff = ["--- a", "+++ b", "@@ -1 +1 @@", f"-{LONG}{end}", f"+{LONG.replace('10.0.0.1', '10.0.0.9')}{end}"]
    [_, gone, come] = hunks(diff, 60)
    assert "10.0.0.1" in gone and "10.0.0.9" in come and len(come) < 60


def test_a_drop_in_goes_with_an_instance_in_sight() -> None:
    path = "/etc/systemd/system/pdctl-chat-prefiller-1.service.d/by-hand.conf"
    done = edit(("count: 2\n  decoders", "count: 1\n  decoders"))
    changes = tuple(
        replace(c, why=(*c.why, f"remove drop-in {path}"))
        if c.key.id.startswith("unit:pdctl-chat-pre")
        else c
        for c in done.plan.changes
    )
    shown = screen(replace(done, plan=replace(done.plan, changes=changes)), columns=None)
    assert f"      - remove drop-in {path}\n" in shown
