"""Reach -> the connection variables of one Ansible host, and values that Ansible shall not evaluate."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

from pdctl.hosts.openssh import options, resolve
from pdctl.hosts.reach import PYTHON, Reach

TEMPLATES = ("{{", "{%", "{#")


def ansible_host_vars(reach: Reach, *, root: bool | None = None) -> dict[str, Any]:
    """How Ansible reaches the host, with the same ssh options as the probe.

    `root` says that the login is root, who needs no sudo; None finds out from ssh's configuration.
    """
    become = reach.become and not (logs_in_as_root(reach) if root is None else root)
    common: dict[str, Any] = {"ansible_python_interpreter": PYTHON, "ansible_become": become}
    if reach.connection == "local":
        return {"ansible_connection": "local", **common}
    found = {"ansible_host": reach.address, "ansible_user": reach.user, "ansible_port": reach.port}
    words = {"ansible_ssh_common_args": shlex.join(options(reach))}
    return {name: value for name, value in found.items() if value is not None} | words | common


def logs_in_as_root(reach: Reach) -> bool:
    if reach.connection == "local":
        return os.geteuid() == 0
    return (reach.user or resolve(reach).user) == "root"


def literal(value: Any) -> Any:
    """The same value with every text that looks like a template marked as plain text.

    Ansible evaluates `{{ ... }}` in an inventory; a chat template in an engine's arguments has them too. The
    marker is that of ansible-core's JSON (ansible/parsing/ajson.py, `__ansible_unsafe`).
    """
    if isinstance(value, str):
        return {"__ansible_unsafe": value} if any(mark in value for mark in TEMPLATES) else value
    if isinstance(value, Mapping):
        return {key: literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [literal(item) for item in value]
    return value
