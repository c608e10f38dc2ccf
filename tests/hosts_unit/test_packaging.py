"""What keeps a host's apt from installing the pinned versions, as findings of doctor."""

from __future__ import annotations

from pdctl.plan.repositories import Repositories
from tests.hosts_unit.test_suitability import found, told


def test_a_version_that_no_repository_has_is_a_warning_since_lists_may_be_old() -> None:
    lacks = {"nvidia-driver-580-server-open": ("580.99.99-1", "580.95.05-1 (http://mirror ./)")}
    ((rule, message),) = told(found(apt=Repositories(lacks, 7200.0)))
    assert rule == "FACT034"
    assert "gpu01 cannot get a pinned version: nvidia-driver-580-server-open 580.99.99-1 is in no" in message
    assert "580.95.05-1 (http://mirror ./)" in message and "2 hours old" in message


def test_only_what_others_left_unfinished_is_a_finding() -> None:
    ours = Repositories(unfinished={"doca-ofed": "unpacked"}, cut=True)
    assert told(found(apt=ours)) == []
    ((rule, message),) = told(
        found(apt=Repositories(unfinished={"libc6": "unpacked"}, others=("libc6",), cut=True))
    )
    assert rule == "FACT035" and "dpkg was cut off at libc6 (unpacked)" in message
