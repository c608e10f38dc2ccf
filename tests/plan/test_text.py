"""File diffs never show what could be a secret."""

from __future__ import annotations

import re

import pytest

from pdctl.knowledge.secrecy import TOKENS, Token
from pdctl.plan.text import file_diff, mask
from pdctl.spec.secrecy import leaks
from pdctl.spec.source import source
from pdctl.state import File


def test_a_diff_shows_lines_from_the_host_to_the_wanted() -> None:
    want = File("/a", "sha256:2", content=b"x: 1\ny: 3\n")
    assert file_diff(want, File("/a", "sha256:1"), b"x: 1\ny: 2\n")[-2:] == ("-y: 2", "+y: 3")


def test_a_secret_file_shows_only_names() -> None:
    want = File("/s", "scrypt:2", secret=True, secret_env=(("HF_TOKEN", "env:HF_TOKEN"),))
    assert file_diff(want, File("/s", "scrypt:1"), b"HF_TOKEN=hf_TESTTOKEN_abc123") == (
        "HF_TOKEN: *** -> ***",
    )


def test_values_of_secret_names_and_token_shapes_are_masked() -> None:
    assert mask('+HF_TOKEN="abc"') == "+HF_TOKEN=***"
    assert mask("-Environment=FOO=hf_TESTTOKEN_abc123") == "-Environment=FOO=***"
    assert mask("+max_num_batched_tokens: 12") == "+max_num_batched_tokens: 12"
    assert mask("+port: 7100") == "+port: 7100"


def test_binary_content_is_not_printed() -> None:
    want = File("/b", "sha256:2", content=b"\xff\x00")
    assert file_diff(want, File("/b", "sha256:1"), b"\xff\x01") == ("binary file differs",)


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.beginning)
def test_what_begins_like_a_token_is_masked_in_diffs_and_a_real_one_refused_in_specs(token: Token) -> None:
    beginning = re.sub(r"\(\?:(\w+)\|\w+\)|\[(\w)\w+\]", lambda m: m[1] or m[2], token.beginning)
    shown = mask(f"-FOO={beginning}{'A1B2C3D4' * 2}")
    assert shown == "-FOO=***"
    text = f"cluster: chat # {beginning}{'A1B2C3D4' * (2 if token.issuer == 'AWS' else 5)}"
    assert [leak.message for leak in leaks(source(text, "x"))] == [
        f"this looks like a token of {token.issuer}; secrets never stand in this file"
    ]
