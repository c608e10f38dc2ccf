#!/usr/bin/python3
"""Ansible module: bring a host to rest, ask it for a reboot, look whether it has come back as it shall be."""

from __future__ import annotations

DOCUMENTATION = """
module: pdctl_reboot
short_description: Reboot a host of a cluster, and look at its driver and kernel before and after
description:
  - An action plugin of the same name drives it - C(rest) stops the engines, C(boot) is first C(ask) and then
    C(look), again and again until the host is in another boot and as it shall be.
options:
  request:
    description:
      - A dict with C(cluster), C(record), C(rest) (units that stop) and C(reboot) (C(why), C(driver),
        C(kernel), C(ofed), C(blind), C(owed), C(timeout_s)), or the JSON of such a dict in base64.
    type: raw
    required: true
  phase:
    description: C(rest), C(ask) or C(look); for the action plugin C(rest) or C(boot).
    type: str
    required: true
  before:
    description: The boot id before the reboot, for C(look).
    type: str
    default: ""
  kernel:
    description: The kernel that was to boot, for C(look).
    type: str
    default: ""
  seconds:
    description: How long the host has been away, for C(look).
    type: float
    default: 0.0
author: pdctl
"""

EXAMPLES = """
- name: Reboot h2
  pdctl_reboot:
    request: "{{ pdctl_reboot_1 }}"
    phase: boot
"""

RETURN = """
did:
  description: What was done, or would be done in check mode, a line each.
  type: list
  returned: always
boot:
  description: The boot id, for C(ask) and C(look).
  type: str
  returned: when it was asked for
wrong:
  description: What is not as it shall be after the reboot.
  type: list
  returned: for C(look)
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pdctl_difference import Problem, told
from ansible.module_utils.pdctl_reboot import ask, look, rest
from ansible.module_utils.pdctl_request import decoded


def main() -> None:
    arguments = {
        "request": {"type": "raw", "required": True},
        "phase": {"type": "str", "required": True, "choices": ["rest", "ask", "look"]},
        "before": {"type": "str", "default": ""},
        "kernel": {"type": "str", "default": ""},
        "seconds": {"type": "float", "default": 0.0},
    }
    module = AnsibleModule(arguments)
    did: list = []
    request, given = decoded(module.params["request"]), module.params
    found: dict = {}
    try:
        if given["phase"] == "rest":
            rest(request, did)
        elif given["phase"] == "ask":
            found = ask(request, did)
        else:
            found = look(request, given["before"], given["kernel"], given["seconds"], did)
    except (Problem, OSError) as error:
        module.fail_json(msg=told(error), did=did, changed=bool(did))
    module.exit_json(changed=bool(did), did=did, **found)


if __name__ == "__main__":
    main()
