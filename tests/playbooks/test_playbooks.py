"""What the playbooks themselves promise, and their action plugins' pure parts."""

from __future__ import annotations

import base64
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.module_utils.pdctl_request import decoded
from ruamel.yaml import YAML

from pdctl.assets import assets

PLAYBOOKS = ("apply", "destroy")


def plays(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = YAML(typ="safe").load(assets("playbooks") / f"{name}.yml")
    return loaded


def plugin(name: str) -> ModuleType:
    path = assets("playbooks") / "action_plugins" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"action_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_no_play_gathers_facts_and_every_play_becomes_root(name: str) -> None:
    assert all(play["gather_facts"] is False and play["become"] is True for play in plays(name))


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_only_our_modules_and_ansibles_own_are_used(name: str) -> None:
    keywords = {"name", "register", "ignore_errors", "no_log", "diff", "when"}
    used = {word for play in plays(name) for task in play["tasks"] for word in task.keys() - keywords}
    assert used <= {"pdctl_converge", "pdctl_bundle", "ansible.builtin.fail"}


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_task_with_secrets_shows_nothing(name: str) -> None:
    tasks = [task for play in plays(name) for task in play["tasks"]]
    secret = [task for task in tasks if "secrets" in task.get("pdctl_converge", {})]
    assert len(secret) == (name == "apply")
    assert all(task["no_log"] is True and task["diff"] is False for task in secret)


def test_roles_start_in_order_and_leave_in_reverse() -> None:
    started = [play["hosts"].removeprefix("pdctl_") for play in plays("apply")]
    assert started == ["put", "stop", "decoder", "server", "prefiller", "proxy", "delete"]
    removed = [play["hosts"].removeprefix("pdctl_") for play in plays("destroy")]
    assert removed == ["proxy", "prefiller", "server", "decoder", "delete"]


def test_a_secret_is_read_from_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value_of = plugin("pdctl_converge").value_of
    monkeypatch.setenv("PDCTL_TEST_TOKEN", "hf_x")
    (tmp_path / "token").write_text("hf_y\n")
    assert value_of("HF_TOKEN", "env:PDCTL_TEST_TOKEN") == "hf_x"
    assert value_of("HF_TOKEN", f"file:{tmp_path}/token") == "hf_y"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert value_of("HF_TOKEN", "file:~/token") == "hf_y"
    with pytest.raises(AnsibleActionFail, match="HF_TOKEN: the environment variable PDCTL_NONE is not set"):
        value_of("HF_TOKEN", "env:PDCTL_NONE")
    with pytest.raises(AnsibleActionFail, match=r"HF_TOKEN: .*/gone: No such file"):
        value_of("HF_TOKEN", f"file:{tmp_path}/gone")


def test_files_are_sent_in_batches_that_leave_room(monkeypatch: pytest.MonkeyPatch) -> None:
    module = plugin("pdctl_bundle")
    monkeypatch.setattr(module, "BATCH_BYTES", 10)
    files = {"a": 4, "b": 6, "c": 25, "d": 1}
    assert list(module.batches(files)) == [{"a": 4, "b": 6}, {"c": 25}, {"d": 1}]
    assert list(module.batches({})) == []


def test_a_file_that_the_bundle_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(AnsibleActionFail, match=r"x\.whl is not in the bundle .*: No such file"):
        plugin("pdctl_bundle").sizes(str(tmp_path), ["wheels/x.whl"])


def test_a_request_may_hold_what_looks_like_a_template() -> None:
    """Base64 has no brace: Ansible cannot take part of it for an expression."""
    request = {"units": [{"argv": ["--x", "{{ 7 * 7 }}", "{% raw %}", "é"]}], "put": []}
    text = base64.b64encode(json.dumps(request).encode()).decode()
    assert "{" not in text and decoded(text) == decoded(request) == request
