"""vLLM 0.11 counts no KV that came from elsewhere: its journal proves the transfer, on virtual hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.line import PLACES, Line, line_on_hosts, unit

pytestmark = pytest.mark.hosts

OLD = {"vllm": "0.11.0", "lmcache": "0.3.10"}
# Another seed gives other keys: the decoder finds nothing, computes the prompt itself and answers rightly.
DEAF = """
mkdir -p /run/systemd/system/{unit}.d
printf '[Service]\\nEnvironmentFile=/run/seed\\n' > /run/systemd/system/{unit}.d/seed.conf
echo PYTHONHASHSEED=7 > /run/seed
systemctl daemon-reload
systemctl restart {unit}
"""


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    with line_on_hosts(tmp_path_factory) as line:
        yield line


def test_lmcache_0_3_10_is_proven_by_what_its_decoders_print(line: Line) -> None:
    line.write({"stack": OLD})
    line.apply()
    proof = line.pdctl("verify", "--json", "--prompts", "4").must().json
    tokens = sum(exchange["prompt_tokens"] for exchange in proof["exchanges"])
    assert proof["transfer"] == {
        "expected": tokens,
        "moved": tokens,
        "source": "journal: `Retrieved N out of M required tokens`",
        "unit": "tokens",
    }
    assert all(exchange["equal"] for exchange in proof["exchanges"])


def test_a_decoder_that_finds_nothing_is_not_proven_though_its_text_is_right(line: Line) -> None:
    decoders = [name for name in PLACES if name.startswith("decoder")]
    for name in decoders:
        line.inside(DEAF.format(unit=unit(name)), PLACES[name])
    proof = line.pdctl("verify", "--json", "--prompts", "2").must(1).json
    assert proof["transfer"]["moved"] == 0
    assert "the KV did not move: decoders took 0 of at least" in proof["problems"][0]
    assert all(exchange["equal"] for exchange in proof["exchanges"])
    for name in decoders:
        line.inside(f"rm -r /run/systemd/system/{unit(name)}.d; systemctl daemon-reload", PLACES[name])


def test_nixl_in_vllm_0_11_is_proven_by_its_periodic_line(line: Line) -> None:
    line.write({"stack": OLD}, connector="nixl")
    line.apply("--no-verify")
    shown = line.pdctl("verify", "--prompts", "2").must().out
    assert "KV moved: 2 transfers, at least 2 expected  [journal: `KV Transfer metrics: " in shown
