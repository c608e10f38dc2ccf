#!/usr/bin/python3
"""Ansible module: take files that were just sent into the bundle of one host."""

from __future__ import annotations

DOCUMENTATION = """
module: pdctl_bundle
short_description: Copy missing files of the bundle to a host
description:
  - The action plugin of the same name sends the files, this module moves them into place and records them.
options:
  request:
    description: A request of M(pdctl_converge); it names the bundle and the record.
    type: raw
    required: true
  files:
    description: Paths below the bundle that this host lacks.
    type: raw
    required: true
  source:
    description: The folder of the bundle on the controller.
    type: str
  sent:
    description: Where the action plugin has put the files on the host.
    type: str
author: pdctl
"""

EXAMPLES = """
- name: Copy wheels
  pdctl_bundle:
    request: "{{ pdctl_put }}"
    files: ["wheels/idna-3.10-py3-none-any.whl"]
    source: bundle
"""

RETURN = """
did:
  description: The files that were copied.
  type: list
  returned: always
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pdctl_difference import Problem, told
from ansible.module_utils.pdctl_receive import receive
from ansible.module_utils.pdctl_request import decoded


def main() -> None:
    os.umask(0o022)
    arguments = {
        "request": {"type": "raw", "required": True},
        "files": {"type": "dict", "required": True},
        "sent": {"type": "str", "required": True},
    }
    module = AnsibleModule(arguments)
    did: list = []
    try:
        receive(decoded(module.params["request"]), module.params["sent"], module.params["files"], did)
    except (Problem, OSError) as error:
        module.fail_json(msg=told(error), did=did, changed=bool(did))
    module.exit_json(changed=bool(did), did=did)


if __name__ == "__main__":
    main()
