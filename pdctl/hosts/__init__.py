"""The arrows to and from the hosts: connections, the probe, and Ansible runs."""

import sys

# paramiko would load it for `Match exec` in its own reading of ssh_config, where nobody goes: `ssh -G` reads
# that file. It is a fifth of what `pdctl diff` loads (45 of 240 ms of CPU), and paramiko does without it.
sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]
