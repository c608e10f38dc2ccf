"""File diffs never show what could be a secret."""

from __future__ import annotations

from pdctl.plan.text import file_diff, mask
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
