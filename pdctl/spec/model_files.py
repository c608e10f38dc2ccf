"""`model` of the spec -> what this machine has of it: config.json, bytes of weights, vocabulary files.

Looked at are `model.path`, where this machine has that folder too, and the Hugging Face cache; nothing is
downloaded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pdctl.knowledge.models import TINY, KnownModel
from pdctl.spec.config_json import read_config
from pdctl.spec.config_values import MAX_BYTES, ConfigError
from pdctl.spec.model import Model
from pdctl.spec.places import beside
from pdctl.spec.vocabulary_files import VocabularyFiles, vocabulary_files

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
MAX_INDEX_BYTES = 64 * 2**20  # the index of DeepSeek V3, with 91,991 tensors, has 9 MB
MAX_SHARDS = 10_000
COMMIT = re.compile(r"[0-9a-f]{40}")
SHARD = re.compile(r"[A-Za-z0-9_.-]+\.safetensors")


@dataclass(frozen=True)
class ModelFiles:
    """What was read from `config`; `facts` is None where it says nothing, and `problem` why.

    `vocabulary` is what lies in the folder that the spec names for it.
    """

    config: str = ""
    facts: KnownModel | None = None
    problem: str = ""
    vocabulary: VocabularyFiles | None = None


def model_files(
    model: Model, environ: Mapping[str, str] = os.environ, start: Path | None = None
) -> ModelFiles | None:
    """What is here of the model; None when that is nothing, or nothing that may be read.

    `start` is the spec's folder, from which `model.vocabulary` is found; without one it is not looked at.
    """
    found = _copy(model, environ)
    if model.vocabulary is None or start is None:
        return found
    looked = vocabulary_files(beside(start, model.vocabulary))
    return replace(found or ModelFiles(), vocabulary=looked)


def _copy(model: Model, environ: Mapping[str, str]) -> ModelFiles | None:
    """The first copy of the weights' folder."""
    if model.id == TINY:  # ours, made on the hosts, and the table says it all
        return None
    for folder in _folders(model, environ):
        config = folder / CONFIG
        raw = _contents(config, MAX_BYTES + 1)
        if raw is None:
            continue
        try:
            facts = read_config(raw)
        except ConfigError as error:
            return ModelFiles(str(config), problem=str(error))
        return ModelFiles(str(config), replace(facts, weight_bytes=_likely(_weight_bytes(folder), facts)))
    return None


def _folders(model: Model, environ: Mapping[str, str]) -> Iterator[Path]:
    if model.path is not None:
        yield Path(model.path)
    repository = _hub(environ) / f"models--{model.id.replace('/', '--')}"
    revision = model.revision or "main"
    if COMMIT.fullmatch(revision):
        yield repository / "snapshots" / revision
    elif ".." not in revision.split("/"):
        commit = (_contents(repository / "refs" / revision, 64) or b"").decode("ascii", "replace").strip()
        if COMMIT.fullmatch(commit):
            yield repository / "snapshots" / commit


def _hub(environ: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps what it has loaded (constants.py, 0.34)."""
    if own := environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(own)
    cache = environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '/nonexistent')}/.cache"
    return Path(environ.get("HF_HOME") or f"{cache}/huggingface") / "hub"


def _contents(path: Path, most: int) -> bytes | None:
    """The first bytes of a regular file; a pipe or a device would never end."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(most)
    except (OSError, ValueError):  # not ours to read; ValueError: a NUL in the name
        return None


def _likely(lying_there: int, facts: KnownModel) -> int:
    """Files of half a download, or pointers of Git LFS, are smaller than the shapes say."""
    return lying_there if 2 * lying_there > facts.weight_bytes else facts.weight_bytes


def _weight_bytes(folder: Path) -> int:
    """Of all shards that the index names, or as it adds them up; without an index of what lies there."""
    raw = _contents(folder / INDEX, MAX_INDEX_BYTES + 1)
    shards, total = _indexed(raw) if raw is not None and len(raw) <= MAX_INDEX_BYTES else (frozenset(), 0)
    sizes = [_size(folder / name) for name in (shards or _shards(folder))]
    return sum(sizes) if sizes and all(sizes) else total


def _indexed(raw: bytes) -> tuple[frozenset[str], int]:
    try:
        index = json.loads(raw)
    except (ValueError, RecursionError):
        return frozenset(), 0
    if not isinstance(index, dict):
        return frozenset(), 0
    names = index.get("weight_map")
    shards = frozenset(map(str, names.values())) if isinstance(names, dict) else frozenset()
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    sound = len(shards) <= MAX_SHARDS and all(SHARD.fullmatch(name) for name in shards)
    return (
        shards if sound else frozenset(),
        total if isinstance(total, int) and not isinstance(total, bool) and 0 < total < 2**50 else 0,
    )


def _shards(folder: Path) -> list[str]:
    """Mistral's folders hold the weights a second time, as consolidated.safetensors."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []
    found = [name for name in names if SHARD.fullmatch(name) and not name.startswith("consolidated")]
    return found[:MAX_SHARDS]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0
