"""Steps of a plan -> the playbook that carries them out, one play each, in a folder with our modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pdctl.assets import assets
from pdctl.desired.render import render
from pdctl.hosts.control_path import private_folder
from pdctl.plan.model import Step, StepKind

APPLY = "apply.yml"
# What Ansible looks for beside a playbook.
BESIDE = ("action_plugins", "library", "module_utils", "ansible.cfg")


def playbook(steps: Sequence[Step]) -> bytes:
    """A host that fails must not leave a rollout that goes on without it, nor a proxy that moves to it end at
    its old place; else the others go on."""
    proxies = {key.host for step in steps for key in step.keys if key.id.endswith("-proxy.service")}
    rolling = len(proxies) > 1 or any(step.kind is StepKind.DRAIN for step in steps)
    return render("playbooks/apply.yml.j2", steps=steps, rolling=rolling)


@contextmanager
def playbook_folder(steps: Sequence[Step]) -> Iterator[Path]:
    """A private folder with the playbook as `apply.yml`, for one run."""
    with private_folder() as folder:
        for entry in BESIDE:
            (folder / entry).symlink_to(assets("playbooks") / entry)
        (folder / APPLY).write_bytes(playbook(steps))
        yield folder
