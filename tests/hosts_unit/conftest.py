"""Fixtures of the tests of pdctl.hosts, and the modules for hosts importable as there."""

from __future__ import annotations

from collections.abc import Iterator

import ansible.module_utils
import pytest

from pdctl.assets import assets
from tests.hosts_unit.sshd import SSHD, Sshd, running

ansible.module_utils.__path__.append(str(assets("playbooks") / "module_utils"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """One sshd for the tests of a module that leave it as it is."""
    if SSHD is None:
        pytest.skip("sshd is not installed (apt-get install openssh-server)")
    with running(tmp_path_factory.mktemp("sshd"), "ed25519", "rsa") as sshd:
        yield sshd
