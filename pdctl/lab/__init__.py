"""Virtual hosts with real systemd, sshd and apt on one machine, to try pdctl on and to test it with."""

from pdctl.lab.lab import DISKS, Lab
from pdctl.lab.machine import missing_tools
from pdctl.lab.state import Bind, parse_bind
from pdctl.lab.status import HostStatus, LabStatus, ServiceStatus

__all__ = ["DISKS", "Bind", "HostStatus", "Lab", "LabStatus", "ServiceStatus", "missing_tools", "parse_bind"]
