"""What is written for plain Ansible: words of the spec stay words, and nothing of anybody's is touched."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdctl.apply.project import write_inventory, write_project
from pdctl.errors import ApplyError
from pdctl.spec.model import Secret
from tests.examples import topology

NAMES = ("ansible_user", "ansible_ssh_private_key_file", "words")


def inventory(mark: Path) -> dict[str, Any]:
    run = f"{{{{ lookup('pipe', 'echo ran; touch {mark}') }}}}"
    variables = {
        "ansible_user": run,
        "ansible_ssh_private_key_file": f"/k/{run}",
        "words": "{# c #}{% raw %}",
    }
    secrets = {"/etc/x": {"TOKEN": f"file:{run}"}}
    return {"all": {"hosts": {"h1": variables | {"pdctl_secrets": secrets, "pdctl_bundle_src": "/b"}}}}


def seen_by_ansible(file: Path) -> str:
    """The variables as a play of the project has them."""
    program = Path(sys.executable).with_name("ansible")
    shown = " ".join(f"{{{{ {name} }}}}" for name in (*NAMES, "pdctl_secrets", "pdctl_bundle_src"))
    command = [program, "-i", file, "h1", "-c", "local", "-m", "debug", "-a", json.dumps({"msg": shown})]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_no_word_of_the_spec_is_run_as_a_template_by_who_plays_the_project(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    write_inventory(tmp_path / "inventory.yml", inventory(mark))
    found = seen_by_ansible(tmp_path / "inventory.yml")
    assert "{# c #}{% raw %}" in found and found.count("lookup('pipe'") >= 3, found
    assert f"{tmp_path}/bundle" in found and not mark.exists()


def test_the_look_would_find_one_that_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (tmp_path / "inventory.yml").write_text(json.dumps(inventory(mark)))
    seen_by_ansible(tmp_path / "inventory.yml")
    assert mark.exists()


def test_a_project_needs_no_secret_and_says_what_follows(tmp_path: Path) -> None:
    plain = topology("lab-simulator")
    spec = plain.spec.model_copy(
        update={
            "secrets": {"HF_TOKEN": Secret(from_file="nowhere.txt"), "OTHER": Secret(from_env="NO_SUCH_VAR")}
        }
    )
    said: list[str] = []
    written = write_project(replace(plain, spec=spec), tmp_path, tmp_path / "out", None, said.append)
    assert "apply.yml" in written
    assert [line for line in said if line.startswith("warning: secrets.HF_TOKEN: ")]
    assert "nowhere.txt" in (tmp_path / "out" / "inventory.yml").read_text()


@pytest.mark.parametrize("taken", ["file", "folder", "loop"])
def test_a_place_that_is_taken_is_named_and_left_alone(tmp_path: Path, taken: str) -> None:
    out, other = tmp_path / "out", tmp_path / "out.new"
    other.mkdir()
    (other / "precious").write_text("data")
    if taken == "loop":
        out.symlink_to(out)
    elif taken == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "mine").write_text("mine")
    with pytest.raises(ApplyError, match=r"out exists and is not empty"):
        write_project(topology("lab-simulator"), tmp_path, out, None, print)
    assert (other / "precious").read_text() == "data" and sorted(p.name for p in tmp_path.iterdir()) == [
        "out",
        "out.new",
    ]
