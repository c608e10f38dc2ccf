"""Reading a spec: files, encodings, places, and what never shows up in an error."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pdctl.errors import ErrorGroup, PdctlError, SpecError
from pdctl.spec.load import check, examine, load, parse
from pdctl.spec.source import MAX_BYTES
from pdctl.spec.starter import starter

ROOT = Path(__file__).parents[2]
GOOD = """\
cluster: chat
hosts:
  - {name: gpu01, address: 10.0.0.11, gpus: 8}
stack: article-2025
model: {id: openai/gpt-oss-120b}
serving:
  prefillers: {count: 1, tensor_parallel: 2}
  decoders: {count: 1, tensor_parallel: 2}
"""


def complaints(raw: str | bytes) -> list[str]:
    with pytest.raises(ErrorGroup) as caught:
        parse(raw, "c.yaml")
    return [str(error) for error in caught.value.errors]


def test_a_file_becomes_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(GOOD)
    cluster = load(path)
    assert cluster.cluster == "chat"
    assert cluster.hosts[0].gpus.count == 8
    assert cluster.stack.base == "article-2025"
    assert cluster.serving.decoders is not None and cluster.serving.decoders.tensor_parallel == 2
    assert cluster.serving.proxy.ports.http == 9100


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_a_byte_order_mark_make_no_difference(end: str, mark: bytes) -> None:
    assert parse(mark + GOOD.replace("\n", end).encode(), "c.yaml") == parse(GOOD, "c.yaml")
    broken = GOOD.replace("gpus: 8", "gpu: 8").replace("\n", end)
    assert complaints(mark + broken.encode())[0].startswith("c.yaml:3:39: hosts[0].gpu: unknown key")


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"cluster: chat\nmodel: {id: caf\xe9}\n", "c.yaml:2:16: is not UTF-8 text: byte 0xe9 [SYNTAX002]"),
        ("cluster: chat".encode("utf-16"), "c.yaml: is UTF-16 text [SYNTAX002]"),
        (
            b"cluster: chat\nmodel: \0",
            "c.yaml:2:8: contains the character U+0000, which cannot stand here [SYNTAX003]",
        ),
        (
            b"cluster: \x1b[31m",
            "c.yaml:1:10: contains the character U+001B, which cannot stand here [SYNTAX003]",
        ),
        (
            "cluster: \ud800",
            "c.yaml:1:10: contains the character U+D800, which cannot stand here [SYNTAX003]",
        ),
        (b"#" * (MAX_BYTES + 1), "c.yaml: is larger than 1 MiB [SYNTAX004]"),
    ],
    ids=["latin1", "utf-16", "nul", "escape", "surrogate", "too large"],
)
def test_what_is_not_text_is_named(raw: str | bytes, told: str) -> None:
    assert complaints(raw) == [told]


def test_a_file_that_cannot_be_read_points_to_init(tmp_path: Path) -> None:
    for path, told in (
        (tmp_path / "none.yaml", "does not exist"),
        (tmp_path, "is a directory, not a file"),
        (tmp_path / "a\0b", "cannot be read: embedded null byte"),
        (tmp_path / ("a" * 300), "cannot be read: File name too long"),
    ):
        with pytest.raises(SpecError) as caught:
            load(path)
        assert str(caught.value) == f"{path}: {told} [FILE001]"
        assert caught.value.hint == "`pdctl init` writes a starter file"


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ErrorGroup, match=r"1 error in .*huge\.yaml"):
        load(tmp_path / "huge.yaml")
    with pytest.raises(SpecError, match="is a pipe or a device"):
        load(Path("/dev/zero"))


def test_all_errors_come_at_once_in_the_order_of_the_file() -> None:
    told = complaints(GOOD.replace("chat", "Chat").replace("gpus: 8", "gpu: 8") + "slo: {ttft: 1}\nslo: {}\n")
    assert [line.split(":")[1] for line in told] == ["1", "3", "9", "10"]


def test_places_of_key_paths_can_be_asked_for() -> None:
    reading = examine(GOOD, "c.yaml")
    assert reading.where("hosts[0].gpus") == "c.yaml:3:45: hosts[0].gpus"
    assert reading.where("hosts.0.gpus.count") == "c.yaml:3:45: hosts[0].gpus"
    assert reading.where("serving.proxy.host") == "c.yaml:7:3: serving"
    assert reading.where("") == "c.yaml:1:1"


def test_more_errors_than_anyone_reads_are_counted() -> None:
    with pytest.raises(ErrorGroup) as caught:
        parse(GOOD + "".join(f"x{i}: 1\n" for i in range(5000)), "c.yaml")
    assert caught.value.message == "5000 errors in c.yaml, the first 100 are shown"
    assert len(caught.value.errors) == 100


SECRET = "s3cr3t-Zq7"
HIDING_PLACES = [
    "HF_TOKEN: {0}",
    "HF_TOKEN: '{0}'",
    "HF_TOKEN: [{0}]",
    "HF_TOKEN: {{{0}: x}}",
    "HF_TOKEN: {{value: {0}}}",
    "HF_TOKEN: {{from_env: '{0}'}}",
    "HF_TOKEN: {{from_env: [{0}]}}",
    "HF_TOKEN: {{from_file: '-{0}'}}",
    "HF_TOKEN: {{from_file: '{0}', from_env: X, {0}: 1}}",
    "HF_TOKEN: {{{0}: 1, {0}: 2}}",
    "HF_TOKEN: !{0} x",
    "HF_TOKEN: *{0}",
    "HF_TOKEN: '{0}",
    "HF_TOKEN: @{0}",
    "HF_TOKEN: &{0} &{0} x",
    "HF_TOKEN: {{from_env: A\n{0}}}",
    "- {0}",
    "{0}",
    "[{0}]",
]


@pytest.mark.parametrize("place", HIDING_PLACES)
def test_what_stands_under_secrets_is_never_repeated(place: str) -> None:
    with pytest.raises(PdctlError) as caught:
        parse(f"{GOOD}secrets:\n  {place.format(SECRET)}\n", "c.yaml")
    assert SECRET not in everything_of(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("token", ["hf_abcDEF123", "hf_" + "a1B2" * 9, "sk-" + "a" * 40, "ghp_" + "b" * 36])
@pytest.mark.parametrize(
    "line",
    [
        "model: {{id: {0}}}",
        "{0}: 1",
        "slo: {{{0}: 1}}",
        "bench: {{seed: {0}}}",
        "engine: {0}",
        "cluster: ['{0}']",
    ],
)
def test_a_token_is_masked_wherever_it_stands(token: str, line: str) -> None:
    with pytest.raises(PdctlError) as caught:
        parse(GOOD + line.format(token), "c.yaml")
    assert token not in everything_of(caught.value)


def everything_of(error: PdctlError) -> str:
    group = error.errors if isinstance(error, ErrorGroup) else ()
    return " ".join([str(error), repr(error), str(error.hint), *(everything_of(inner) for inner in group)])


def test_the_starter_file_is_valid_and_short() -> None:
    reading = examine(starter(), "cluster.yaml")
    assert not reading.warnings
    lines = [line for line in starter().splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(lines) < 25


@pytest.mark.parametrize(
    "example", sorted(ROOT.glob("inventories/*/cluster.yaml")), ids=lambda p: p.parent.name
)
def test_the_examples_are_valid(example: Path) -> None:
    assert not check(example).warnings


def test_a_thousand_hosts_are_read_in_a_moment() -> None:
    hosts = "".join(
        f"  - {{name: gpu{i}, address: 10.{i // 250}.0.{i % 250 + 1}, gpus: 8}}\n" for i in range(1000)
    )
    text = GOOD.replace("  - {name: gpu01, address: 10.0.0.11, gpus: 8}\n", hosts)
    start = time.process_time()
    assert len(parse(text, "c.yaml").hosts) == 1000
    assert time.process_time() - start < 2.0  # 0.2 s on an idle core


@pytest.mark.parametrize("name", ["all", "ungrouped", "pdctl_decoder"])
def test_a_host_is_not_named_like_a_group_that_every_inventory_has(name: str) -> None:
    """Ansible leaves a host `ungrouped` out of every play without a word."""
    assert "word of Ansible's" in complaints(GOOD.replace("gpu01", name))[0]
