"""What engines would download as they start: what of it pdctl puts on the hosts, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from pdctl.knowledge.models import TINY
from pdctl.knowledge.vocabularies import ENCODINGS, GPT_OSS, PUBLISHED, VOCABULARIES
from pdctl.spec.finding import Finding
from pdctl.spec.model import Cluster
from pdctl.spec.model_files import ModelFiles
from pdctl.spec.rules.rule import pools
from pdctl.spec.vocabulary_files import VocabularyFiles
from pdctl.topology.known import Known

FIELD = ("model", "vocabulary")


def vocabulary(cluster: Cluster, found: Known, files: ModelFiles | None) -> tuple[str, ...]:
    """The files to put on hosts; those that the model needs where nobody has looked into the folder."""
    if cluster.model.vocabulary is None:
        return ()
    if files is not None and files.vocabulary is not None:
        return files.vocabulary.sound
    return _needed(found) or GPT_OSS


def downloads_left(cluster: Cluster, found: Known, files: ModelFiles | None) -> Iterator[Finding]:
    """What an engine would still go to the internet for."""
    if cluster.model.vocabulary is not None:
        if files is not None and files.vocabulary is not None:
            yield from _lacking(files.vocabulary, _needed(found))
    elif cluster.offline and (needed := _needed(found)) and not _on_the_hosts(cluster):
        yield Finding(
            "MODEL009",
            ("model",),
            f"engines of {cluster.model.id} download {_names(needed)} as they start, and `offline` is true",
            f"{_fetch(needed[0])}, and name that folder in `model.vocabulary`",
        )
    if cluster.offline and _by_name(cluster):
        yield Finding(
            "MODEL011",
            FIELD[:1],
            f"the weights are loaded by name, and with `offline` no host downloads {cluster.model.id}",
            "name the folder that holds them on the hosts in `model.path`;"
            " or fill the hosts' Hugging Face cache, and suppress the rule",
        )


def _lacking(have: VocabularyFiles, needed: tuple[str, ...]) -> Iterator[Finding]:
    for name, what in have.damaged.items():
        yield Finding("MODEL010", FIELD, f"{have.folder}/{name} {what}", f"engines refuse it: {_fetch(name)}")
    missing = [name for name in needed if name not in have.sound and name not in have.damaged]
    if not needed and not have.sound and not have.damaged:
        missing = [*GPT_OSS]
    why = "" if have.exists else ": there is no such folder"
    for name in missing:
        yield Finding("MODEL010", FIELD, f"`{name}` is not in {have.folder}{why}", _fetch(name))


def _needed(found: Known) -> tuple[str, ...]:
    return found.facts.vocabulary if found.facts else ()


def _on_the_hosts(cluster: Cluster) -> bool:
    """Whether every pool says itself where its hosts have the files."""
    return all(ENCODINGS in {**pool.env, **cluster.secrets} for _, pool in pools(cluster))


def _by_name(cluster: Cluster) -> bool:
    model = cluster.model
    return cluster.engine.kind == "vllm" and model.path is None and model.id != TINY


def _fetch(name: str) -> str:
    return f"fetch {PUBLISHED}{name} into a folder on this machine (sha256 {VOCABULARIES[name].sha256})"


def _names(names: tuple[str, ...]) -> str:
    return " and ".join(f"`{name}`" for name in names)
