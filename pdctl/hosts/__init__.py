"""The arrows to and from the hosts: connections, the probe, and Ansible runs."""
