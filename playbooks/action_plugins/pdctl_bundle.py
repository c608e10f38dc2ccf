"""Bundle files on the controller -> a folder of their own on the host, and from there into its bundle."""

from __future__ import annotations

import base64
import json
import os
import re
from shlex import quote

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

BATCH_BYTES = 512 * 2**20  # so that a host needs little room beside the bundle itself


# Sticky and on a disk; what a cut-off transfer leaves there the module finds again (pdctl_receive.py: SENT).
FOLDER = "/var/tmp/pdctl-%s.XXXXXXXXXX"

FIGURES = re.compile(r"^[0-9]+[+][0-9]+ records (in|out)|^[0-9]+ bytes")


class ActionModule(ActionBase):
    """Sends `files` of the folder `source` a batch at a time; the module of the same name takes them in."""

    TRANSFERS_FILES = False  # not to Ansible's temporary folder, which would stay in the user's home

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        arguments = self._task.args
        source = self._loader.path_dwim(arguments["source"])
        result["did"] = []
        for batch in batches(self._lacking(arguments["request"], sizes(source, arguments["files"]))):
            if self._play_context.check_mode:
                result["did"] += [f"copy {name}" for name in batch]
                continue
            answer = self._send(arguments["request"], source, batch, task_vars)
            result["did"] += answer.get("did", [])
            if answer.get("failed"):
                return {**answer, **result, "failed": True, "msg": answer.get("msg")}
        return dict(result, changed=bool(result["did"]))

    def _lacking(self, request, files: dict) -> dict:
        """Those of `files` that the host's bundle does not hold in that size."""
        bundle = decoded(request)["bundle"]
        asked = "stat -c '%s %n' -- " + " ".join(quote(os.path.join(bundle, name)) for name in files)
        lines = self._low_level_execute_command(asked, sudoable=False)[
            "stdout_lines"
        ]  # none for a missing file
        return {n: size for n, size in files.items() if f"{size} {os.path.join(bundle, n)}" not in lines}

    def _send(self, request, source: str, batch: dict, task_vars) -> dict:
        folder = self._made_folder(decoded(request)["cluster"])
        try:
            sent = self._connection._shell.join_path(folder, "bundle")
            folders = sorted(
                {self._connection._shell.join_path(sent, os.path.dirname(name)) for name in batch}
            )
            self._low_level_execute_command("mkdir -p " + " ".join(map(quote, folders)), sudoable=False)
            for name in batch:
                self._send_one(os.path.join(source, name), self._connection._shell.join_path(sent, name))
            arguments = {"request": request, "files": batch, "sent": sent}
            return self._execute_module(module_args=arguments, task_vars=task_vars)
        finally:
            self._low_level_execute_command(f"rm -rf {quote(folder)}", sudoable=False)

    def _send_one(self, source: str, target: str) -> None:
        try:
            self._transfer_file(source, target)
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as error:
            raise AnsibleActionFail(f"{target} was not sent: {last_words(str(error))}") from None

    def _made_folder(self, cluster: str) -> str:
        done = self._low_level_execute_command(f"mktemp -d {FOLDER % cluster}", sudoable=False)
        if done["rc"]:
            raise AnsibleActionFail(f"no folder to send files to: {done['stderr'].strip()}")
        return done["stdout_lines"][-1]


def decoded(request) -> dict:
    """As module_utils/pdctl_request.py reads it, which the controller cannot import."""
    return json.loads(base64.b64decode(request)) if isinstance(request, str) else request


def last_words(said: str) -> str:
    """The reason at the end of what sftp, scp or dd printed, without dd's figures."""
    lines = [line for line in said.splitlines() if line.strip() and not FIGURES.search(line)]
    return lines[-1].strip() if lines else said


def sizes(source: str, names: list) -> dict:
    found = {}
    for name in names:
        try:
            found[name] = os.path.getsize(os.path.join(source, name))
        except OSError as error:
            raise AnsibleActionFail(f"{name} is not in the bundle {source}: {error.strerror}") from None
    return found


def batches(files: dict):
    """Dicts of files, each below the limit unless it is a single file."""
    batch: dict = {}
    for name, size in files.items():
        if batch and sum(batch.values()) + size > BATCH_BYTES:
            yield batch
            batch = {}
        batch[name] = size
    if batch:
        yield batch
