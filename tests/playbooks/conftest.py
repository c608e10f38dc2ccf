"""The host side's modules, importable as on a host; rows and requests for them."""

from __future__ import annotations

import base64
import grp
import os
import pwd
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest

from pdctl.assets import assets
from pdctl.state.digest import content_digest

ansible.module_utils.__path__.append(str(assets("playbooks") / "module_utils"))

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users, as the module does")

META = {"applied_at": "2030-01-01T00:00:00Z", "by": "ann@desk", "pdctl": "0.1.0", "spec_digest": "d1"}


def me() -> tuple[str, str]:
    return pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name


def file_row(path: Path, data: bytes = b"hello\n", **more: Any) -> dict[str, Any]:
    owner, group = me()
    return {
        "kind": "file",
        "path": str(path),
        "digest": content_digest(data),
        "owner": owner,
        "group": group,
        "mode": "0640",
        "secret": False,
        "content": base64.b64encode(data).decode(),
        "source": None,
        "secret_env": [],
        **more,
    }


def directory_row(path: Path, **more: Any) -> dict[str, Any]:
    owner, group = me()
    return {"kind": "directory", "path": str(path), "owner": owner, "group": group, "mode": "0750", **more}


def request_in(root: Path, cluster: str = "chat", **more: Any) -> dict[str, Any]:
    """A request whose record and bundle lie below `root`."""
    record = root / "var/lib/pdctl" / cluster / "record.json"
    return {"cluster": cluster, "record": str(record), "bundle": str(root / "bundle"), "meta": META, **more}
