"""The host side's modules, importable as on a host."""

from __future__ import annotations

import ansible.module_utils

from pdctl.assets import assets

ansible.module_utils.__path__.append(str(assets("playbooks") / "module_utils"))
