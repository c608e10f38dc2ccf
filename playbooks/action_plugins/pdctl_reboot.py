"""A host -> the same host in another boot, looked at: it is asked, waited for, and believed only then."""

from __future__ import annotations

import base64
import json
import time

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

PAUSE_S = 2.0
AWAY = "ssh does not answer"
# After the boot has come to its end: udev and services may still be at loading the driver.
GRACE_S = 20.0


class ActionModule(ActionBase):
    """`phase: rest` is the module's own; `boot` asks, waits until the boot id is another, and looks."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        request, phase = self._task.args["request"], self._task.args["phase"]
        if self._play_context.check_mode:
            line = "stop engines" if phase == "rest" else "reboot"
            return dict(result, changed=True, did=[line])
        if phase == "rest":
            return {**result, **self._module(request, "rest", task_vars)}
        if self._connection.transport == "local":
            words = "it is this very machine, on which pdctl runs: reboot it by hand, then apply again"
            return dict(result, failed=True, msg=words)
        asked = self._module(request, "ask", task_vars)
        if asked.get("failed"):
            return {**result, **asked}
        back = self._wait(request, asked, task_vars)
        return {**result, **back, "did": [*asked["did"], *back.get("did", [])], "changed": True}

    def _wait(self, request, asked, task_vars) -> dict:
        """The host's own answer once nothing is wrong with it, else why not."""
        begun = time.monotonic()
        limit = decoded(request)["reboot"]["timeout_s"]
        settled, last = None, AWAY
        while time.monotonic() - begun < limit:
            time.sleep(PAUSE_S)
            elapsed = time.monotonic() - begun
            try:
                self._connection.reset()
                answer = self._module(
                    request,
                    "look",
                    task_vars,
                    before=asked["boot"],
                    kernel=asked["kernel"],
                    seconds=elapsed,
                )
            except AnsibleConnectionFailure:
                last = AWAY
                continue
            except AnsibleError as error:
                last = first_line(str(error)) or last
                continue
            if answer.get("failed") or "boot" not in answer:
                last = first_line(str(answer.get("msg", ""))) or last
                continue
            if answer["boot"] == asked["boot"]:
                last = "it is up, and has not rebooted yet"
                continue
            if not answer["wrong"]:
                return answer
            last = f"it has rebooted, and {'; '.join(answer['wrong'])}"
            settled = settled or (time.monotonic() if answer["settled"] else None)
            if settled and time.monotonic() - settled > GRACE_S:
                return failure(
                    f"{last}. Its engines were not started; pdctl does not reboot it again for this"
                )
        return failure(
            f"it was not back within {limit} s after its reboot ({last}): look at its console. Its engines"
            " were not started; once it is back, the next apply goes on with it"
        )

    def _module(self, request, phase, task_vars, **more) -> dict:
        return self._execute_module(
            module_args={"request": request, "phase": phase, **more}, task_vars=task_vars
        )


def failure(words: str) -> dict:
    return {"failed": True, "msg": words}


def first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""


def decoded(request) -> dict:
    """As pdctl_request.py has it, which only hosts can import."""
    return dict(json.loads(base64.b64decode(request))) if isinstance(request, str) else request
