#!/usr/bin/python3
"""Ansible module: have a running proxy send nothing to some instances, and wait until they are idle."""

from __future__ import annotations

DOCUMENTATION = """
module: pdctl_drain
short_description: Drain and undrain instances of a cluster at its proxy
description:
  - Runs on the proxy's host and speaks to the control socket of the running proxy. First the sides are set,
    then instances are undrained (until the proxy reaches them), then others are drained (until they have no
    request and hold no KV, and have been so for C(lease_s)).
  - When a drain takes longer than C(timeout_s), what it drained is undrained again and the module fails.
  - Without a proxy there is nothing to drain; one that systemd is starting again is waited for, and the
    module fails when it does not come back. Instances that the proxy does not know are left out.
options:
  request:
    description:
      - A dict with C(cluster), C(control) (path of the socket), C(drain) and C(undrain) (names of instances),
        C(sides) (names of those that are only paired with each other; an empty list ends that, null leaves it
        as it is), C(reload) (whether it reads its list of instances again, before all else), C(others)
        (whether another one of each role must serve meanwhile), C(lease_s) and
        C(timeout_s), or the JSON of such a dict in base64.
    type: raw
    required: true
author: pdctl
"""

EXAMPLES = """
- name: Undrain what has been restarted, drain what comes next
  pdctl_drain:
    request: "{{ pdctl_drain_2 }}"
"""

RETURN = """
did:
  description: What was done, or would be done in check mode, a line each.
  type: list
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pdctl_difference import Problem, told
from ansible.module_utils.pdctl_drain import drain
from ansible.module_utils.pdctl_journal import journaled
from ansible.module_utils.pdctl_request import decoded


def main() -> None:
    module = AnsibleModule({"request": {"type": "raw", "required": True}}, supports_check_mode=True)
    did: list = []
    request = decoded(module.params["request"])
    try:
        with journaled({} if module.check_mode else request, did):
            changed = drain(request, module.check_mode, did)
    except (Problem, OSError) as error:
        module.fail_json(msg=told(error), did=did, changed=bool(did))
    module.exit_json(changed=changed, did=did)


if __name__ == "__main__":
    main()
