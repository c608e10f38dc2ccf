#!/usr/bin/python3
"""Ansible module: bring what a request describes about on one host, and keep the record of it."""

from __future__ import annotations

DOCUMENTATION = """
module: pdctl_converge
short_description: Bring users, directories, packages, files, Python environments and units of a host about
description:
  - Compares what is asked with what is on the host, changes what differs, reads it again, and keeps a record
    of what was put there, so that all of it can be taken away.
options:
  request:
    description:
      - A dict with C(cluster), C(record), C(bundle), C(meta), C(put), C(units), C(halt), C(delete),
        C(everything), C(allow_downgrades) and C(apt), or the JSON of such a dict in base64.
      - With C(token) it does nothing unless the cluster's lock on this host carries that token, and writes
        C(generation) and C(step) into the journal beside the record.
    type: raw
    required: true
  secrets:
    description: Variables of each secret file, by path.
    type: dict
    default: {}
  weights:
    description: Whether this is about the weights of models alone, or about all else.
    type: bool
    default: false
author: pdctl
"""

EXAMPLES = """
- name: Bring the files about
  pdctl_converge:
    request: "{{ pdctl_put }}"
"""

RETURN = """
did:
  description: What was done, or would be done in check mode, a line each.
  type: list
  returned: always
journal:
  description: The last lines of each unit that did not become healthy.
  type: dict
  returned: on failure of a unit
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pdctl_apply import converge
from ansible.module_utils.pdctl_difference import Problem, told
from ansible.module_utils.pdctl_request import chosen, decoded


def main() -> None:
    os.umask(0o022)
    arguments = {
        "request": {"type": "raw", "required": True},
        "secrets": {"type": "dict", "default": {}, "no_log": True},
        "weights": {"type": "bool", "default": False},
    }
    module = AnsibleModule(arguments, supports_check_mode=True)
    did: list = []
    try:
        request = chosen(decoded(module.params["request"]), module.params["weights"])
        converge(request, module.params["secrets"], module.check_mode, did)
    except (Problem, OSError) as error:
        journal = getattr(error, "journal", {})
        module.fail_json(msg=told(error), did=did, changed=bool(did), journal=journal)
    module.exit_json(changed=bool(did), did=did)


if __name__ == "__main__":
    main()
