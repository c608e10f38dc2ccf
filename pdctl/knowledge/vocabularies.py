"""Vocabulary files that an engine downloads as it starts, although the weights are on the host.

vLLM renders the chats of models of type `gpt_oss` with openai-harmony (vLLM 0.11.0
entrypoints/openai/serving_chat.py). That reads `o200k_base.tiktoken` from the folder that ENCODINGS names, or
else downloads it; in the folder it takes the published bytes only (harmony
src/tiktoken_ext/public_encodings.rs: names, sha256 and the address they are fetched from).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ENCODINGS = "TIKTOKEN_ENCODINGS_BASE"
PUBLISHED = "https://openaipublic.blob.core.windows.net/encodings/"
GPT_OSS = ("o200k_base.tiktoken",)


@dataclass(frozen=True)
class Vocabulary:
    """A file as published."""

    sha256: str
    size: int


# All that harmony knows; a model of OpenAI's needs the first.
VOCABULARIES: dict[str, Vocabulary] = {
    "o200k_base.tiktoken": Vocabulary(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d", 3_613_922
    ),
    "cl100k_base.tiktoken": Vocabulary(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7", 1_681_126
    ),
}
# `model_type` of config.json -> the files that its engines cannot do without.
NEEDED: Mapping[str, tuple[str, ...]] = {"gpt_oss": GPT_OSS}
