"""Every field of the spec is explained, with an example that is a part of a sound spec."""

from __future__ import annotations

import pytest

from pdctl.spec.compose import compose
from pdctl.spec.examples import EXAMPLES
from pdctl.spec.explain import explain, nearest, top
from pdctl.spec.fields import walk
from pdctl.spec.load import inspect
from pdctl.spec.locate import plain
from pdctl.spec.model import Cluster
from pdctl.spec.source import source
from pdctl.topology.judge import judge

PATHS = [path for path, _ in walk()]


@pytest.mark.parametrize("text", EXAMPLES, ids=["lmcache", "nixl", "aggregated", "simulator"])
def test_the_specs_behind_the_examples_are_sound(text: str) -> None:
    judged = judge(inspect(text, "example"))
    assert [str(found) for found in (*judged.errors, *judged.warnings)] == []


@pytest.mark.parametrize("path", PATHS)
def test_every_field_has_its_type_its_meaning_and_an_example(path: str) -> None:
    found = explain(path)
    assert found is not None and found.path == path
    assert found.type and found.meaning.endswith(".")
    root = compose(source(found.example, "example")).root
    assert root is not None
    errors = errors_at(plain(root))
    assert not [error for error in errors if "missing" not in error], found.example


def errors_at(values: object) -> list[str]:
    """What the model says of an example, which is only a part of a spec."""
    from pydantic import ValidationError

    try:
        Cluster.model_validate(values)
    except ValidationError as error:
        return [item["type"] for item in error.errors(include_url=False)]
    return []


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("hosts.gpus", "hosts[].gpus"),
        ("hosts[3].gpus.count", "hosts[].gpus.count"),
        ("hosts.0.ssh.port", "hosts[].ssh.port"),
        ("secrets.HF_TOKEN.from_env", "secrets.NAME.from_env"),
        ("serving.decoders.env.UCX_TLS", "serving.decoders.env"),
        ("hosts[].labels.rack", "hosts[].labels"),
        ("serving.prefillers.placement[0].ports.init[1]", "serving.prefillers.placement[].ports.init"),
    ],
)
def test_a_path_may_be_written_as_in_an_error(path: str, found: str) -> None:
    explained = explain(path)
    assert explained is not None and explained.path == found


@pytest.mark.parametrize("path", ["", "x", "serving.x", "serving.prefillers.count.x", "model.id.x", "env"])
def test_what_is_no_field_is_not_explained(path: str) -> None:
    assert explain(path) is None


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("serving.prefillers.cuont", "serving.prefillers.count"),
        ("tensor_paralel", "serving.prefillers.tensor_parallel"),
        ("tp", "serving.prefillers.tensor_parallel"),
        ("chunk_size", "serving.lmcache.chunk_size"),
        ("serving.decoder.env", "serving.decoders.env"),
    ],
)
def test_the_nearest_fields_are_named(path: str, first: str) -> None:
    assert nearest(path)[0] == first
    assert nearest("zzz") == []


def test_details_are_those_of_the_model() -> None:
    chunk = explain("serving.lmcache.chunk_size")
    assert chunk is not None
    assert (chunk.type, chunk.default, chunk.unit) == ("whole number, at least 1", "256", "tokens")
    kind = explain("engine.kind")
    assert kind is not None and kind.allowed == ("vllm", "simulator") and kind.default == "vllm"
    name = explain("cluster")
    assert name is not None and name.required and name.default is None
    seqs = explain("serving.prefillers.max_num_seqs")
    assert seqs is not None and "KV004" in seqs.rules
    gpus = explain("hosts[].gpus")
    assert gpus is not None and [key for key, _ in gpus.keys] == ["count", "model", "memory_gib", "pci"]
    assert [name for name, _ in top()] == list(Cluster.model_fields)
