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

from pdctl.apply.playbook import playbook
from pdctl.assets import assets
from pdctl.plan import Step, StepKind
from pdctl.plan.removal import REST_TITLE, TITLES
from pdctl.state import Key
from pdctl.topology.model import START_ORDER

PLAYBOOKS = ("apply", "destroy")
KEY = Key("h1", "unit:pdctl-chat-proxy.service")
STEPS = (
    Step("put", "Put files", (KEY,), StepKind.PUT),
    Step("stop", "Stop what makes room", (KEY,), StepKind.STOP),
    Step("drain_1", 'Drain decoder-0, keep "x" apart', (KEY,), StepKind.DRAIN, drain=("decoder-0",)),
    Step("reboot_1", "Reboot h2", (KEY,), StepKind.REBOOT, hosts=("h2",)),
    Step("restart_1", "Restart decoder-0", (KEY,), StepKind.UNITS),
    Step("delete", "Delete what left", (KEY,), StepKind.DELETE),
)
GOLDEN = Path(__file__).parents[1] / "golden" / "playbooks" / "apply.yml"


def plays(name: str, steps: tuple[Step, ...] = STEPS) -> list[dict[str, Any]]:
    text = playbook(steps) if name == "apply" else (assets("playbooks") / "destroy.yml").read_bytes()
    loaded: list[dict[str, Any]] = YAML(typ="safe").load(text.decode())
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
    ours = {"pdctl_converge", "pdctl_bundle", "pdctl_drain", "pdctl_reboot"}
    assert used <= {*ours, "ansible.builtin.fail"}


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_task_with_secrets_shows_nothing(name: str) -> None:
    tasks = [task for play in plays(name) for task in play["tasks"]]
    secret = [task for task in tasks if "secrets" in task.get("pdctl_converge", {})]
    assert len(secret) == (name == "apply")
    assert all(task["no_log"] is True and task["diff"] is False for task in secret)


def test_the_playbook_of_a_rollout_is_as_reviewed(request: pytest.FixtureRequest) -> None:
    """`make lint` shows it to ansible-lint too."""
    text = playbook(STEPS).decode()
    if request.config.getoption("--accept"):
        GOLDEN.write_text(text)
    assert GOLDEN.read_text() == text


def test_each_step_is_a_play_of_its_name_with_its_request() -> None:
    for step, play in zip(STEPS, plays("apply"), strict=True):
        assert play["name"] == step.title and play["hosts"] == f"pdctl_{step.name}"
        module = "pdctl_drain" if step.kind is StepKind.DRAIN else "pdctl_converge"
        asked = [task[module]["request"] for task in play["tasks"] if module in task]
        assert set(asked) == {f"{{{{ pdctl_{step.name} }}}}"}


def test_a_failed_step_ends_the_run_but_for_files_where_nothing_is_rolled_out() -> None:
    fatal = [play["name"] for play in plays("apply") if play.get("any_errors_fatal")]
    assert fatal == [step.title for step in STEPS[:5]]
    plain = plays("apply", tuple(step for step in STEPS if step.kind is not StepKind.DRAIN))
    assert [play["name"] for play in plain if play.get("any_errors_fatal")] == [
        "Stop what makes room",
        "Reboot h2",
        "Restart decoder-0",
    ]
    alone = plays("apply", (Step("reboot", "Reboot h1 and h2", (KEY,), StepKind.REBOOT, hosts=("h1", "h2")),))
    assert not alone[0].get("any_errors_fatal")  # nobody serves on them: the others go on


def test_roles_leave_in_the_reverse_of_their_start() -> None:
    removed = [play["hosts"].removeprefix("pdctl_") for play in plays("destroy")]
    assert removed == ["proxy", "prefiller", "server", "decoder", "delete"]
    roles = [TITLES[role] for role in reversed(START_ORDER)]
    assert [play["name"] for play in plays("destroy")] == [*roles, REST_TITLE]


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
