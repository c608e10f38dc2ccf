"""Where a secret's value is found -> the module on the host: values are read here, when the task runs."""

from __future__ import annotations

import os

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Runs the module of the same name. `secrets` names sources; their values reach only the module."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        arguments["secrets"] = {
            path: {name: value_of(name, source) for name, source in sources.items()}
            for path, sources in (arguments.get("secrets") or {}).items()
        }
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        return result


def value_of(name: str, source: str) -> str:
    """`env:NAME`: a variable of this controller; `file:PATH`: the text of its file less one line end."""
    kind, _, where = source.partition(":")
    if kind == "env":
        if where not in os.environ:
            raise AnsibleActionFail(f"{name}: the environment variable {where} is not set on this controller")
        return os.environ[where]
    try:
        with open(os.path.expanduser(where), encoding="utf-8") as handle:
            text = handle.read()
    except OSError as error:
        raise AnsibleActionFail(f"{name}: {where}: {error.strerror}") from None
    return text[:-1] if text.endswith("\n") else text
