"""Where the weights of a model come from, and when they are none of pdctl's business."""

from __future__ import annotations

from typing import Any

import pytest

from pdctl.desired import desire
from pdctl.spec.load import inspect
from pdctl.state import Directory, Venv, Weights
from pdctl.topology.judge import judge
from tests.spec.breaking import sound_but_for

HUB = "/opt/pdctl/models/huggingface/hub"
GPT = f"{HUB}/models--openai--gpt-oss-20b"
GPUS = "{count: 8, model: H100-SXM-80GB}"


def wanted(model: str = "{id: openai/gpt-oss-20b}", more: str = "") -> list[Any]:
    spec = (
        f"cluster: chat\nhosts: [{{name: g1, address: 10.0.0.11, gpus: {GPUS}}},"
        f" {{name: g2, address: 10.0.0.12, gpus: {GPUS}}}]\nmodel: {model}\nstack: article-2025\n{more}"
    )
    return list(desire(judge(inspect(sound_but_for(spec), "c")).sound()).items())


def weights(*args: str, **more: str) -> list[Weights]:
    return [row for _, row in wanted(*args, **more) if isinstance(row, Weights)]


def test_a_model_by_its_name_is_fetched_once_on_each_host_with_the_engines_own_client() -> None:
    rows = wanted("{id: openai/gpt-oss-20b, revision: 6cee5e8}", "secrets: {HF_TOKEN: {from_env: TOKEN}}\n")
    found = {key.host: row for key, row in rows if isinstance(row, Weights)}
    assert sorted(found) == ["g1", "g2"]
    venv = next(row for _, row in rows if isinstance(row, Venv) and "engine" in row.path)
    row = found["g1"]
    assert (row.path, row.revision, row.repo, row.given) == (GPT, "6cee5e8", "openai/gpt-oss-20b", False)
    assert (row.tool, row.owner, row.secrets) == (venv.path, "pdctl", "/etc/pdctl/chat/secrets.env")
    folders = {each.path: each.owner for _, each in rows if isinstance(each, Directory)}
    assert folders[HUB] == "pdctl"


def test_without_a_revision_it_is_the_main_branch() -> None:
    assert {row.revision for row in weights()} == {"main"}


def test_a_folder_of_the_users_is_only_looked_at() -> None:
    found = weights("{id: openai/gpt-oss-20b, path: /mnt/models/gpt}")
    assert {(row.path, row.given, row.tool) for row in found} == {("/mnt/models/gpt", True, "")}


def test_the_way_to_the_hub_is_the_engines_own() -> None:
    env = "{HF_ENDPOINT: 'http://hub.internal', NCCL_DEBUG: INFO}"
    found = weights(more=f"serving: {{prefillers: {{env: {env}}}, decoders: {{env: {env}}}}}\n")
    assert {row.environment for row in found} == {
        (("HF_HOME", "/opt/pdctl/models/huggingface"), ("HF_ENDPOINT", "http://hub.internal"))
    }


@pytest.mark.parametrize(
    "pool",
    ["{extra_args: [--load-format, dummy]}", "{extra_args: ['--download-dir=/w']}", "{env: {HF_HOME: /w}}"],
)
def test_engines_that_look_elsewhere_are_left_to_it(pool: str) -> None:
    assert not weights(more=f"serving: {{prefillers: {pool}, decoders: {pool}}}\n")


def test_a_simulator_loads_none() -> None:
    assert not weights(more="engine: simulator\n")
