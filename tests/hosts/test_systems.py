"""The stack's packages on hosts that look like the systems that pdctl is made for, from apt 2.6 to apt 3."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from pdctl.lab import Bind, Lab
from tests.hosts.line import Line
from tests.hosts.signatures import NEW, end_agent, make_keys, public_key, release, sign
from tests.hosts.stacked import INITRAMFS, LAYERS, SPEC, diff, held, versions
from tests.hosts.vendors import DRIVER, NEWER, PARTS, PINNED, vendor_repository

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="makes packages with dpkg-deb"),
    pytest.mark.skipif(shutil.which("gpg") is None, reason="signs a repository with gpg"),
]

# Debian's release below, and the name of what it says it is in the spec.
SYSTEMS = {
    "jammy": ("bookworm", "ubuntu-22.04"),
    "noble": ("trixie", "ubuntu-24.04"),
}
# A host's own Python is Debian's here, so its environments are not asked for.
PACKAGES = "dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'"
FILES = "find /etc/apt /etc/modprobe.d /etc/security /etc/pdctl /var/lib/pdctl -type f 2>/dev/null | sort"


@pytest.fixture(scope="module", params=SYSTEMS)
def line(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    suite, system = SYSTEMS[request.param]
    repository = vendor_repository(tmp_path_factory.mktemp("vendors"))
    home = tmp_path_factory.mktemp("gpg") / "home"
    make_keys(home, repository)
    release(repository, "Vendor", "vendor")
    sign(repository, home, NEW)
    key = public_key(home, NEW)
    end_agent(home)
    with Lab(tmp_path_factory.mktemp("a lab"), report=print) as lab:
        lab.build(suite, request.param)
        lab.up(1, "h", [Bind(str(repository), "/srv/vendors")])
        found = Line(lab, tmp_path_factory.mktemp("systems"))
        hosts: list[dict[str, Any]] = [{**SPEC["hosts"][0], "os": system}]
        vendor = {"name": "vendor", "uri": "file:/srv/vendors", "key": key}
        found.spec = {**SPEC, "hosts": hosts, "ssh": {"config": str(lab.ssh_config)}}
        found.spec["apt"] = {"repositories": [vendor]}
        found.save()
        found.inside(INITRAMFS)
        yield found


def test_the_stack_is_installed_kept_upgraded_and_taken_away(line: Line) -> None:
    before = [line.inside(PACKAGES), line.inside(FILES), line.inside("getent passwd")]
    seen = line.pdctl("doctor", "--json")
    system = next(row for row in seen.json["hosts"][0]["checks"] if row["check"] == "system")
    assert system["found"].startswith(f"{line.spec['hosts'][0]['os']}, x86_64")
    assert "FACT034" not in seen.out  # the repository that has it all comes with the apply
    line.apply("--no-verify", *LAYERS)
    assert {versions(line)[name] for name in (DRIVER, *PARTS)} == {PINNED}
    assert {DRIVER, *PARTS} <= held(line) and diff(line)["empty"]
    simulated = line.inside("apt-get -s dist-upgrade")
    assert not [row for row in simulated.splitlines() if row.startswith("Inst ") and "nvidia" in row]
    line.spec["stack"] = {"base": "article-2025", "driver": NEWER, "fabricmanager": NEWER}
    line.save()
    line.apply("--no-verify", *LAYERS)
    assert {versions(line)[name] for name in (DRIVER, *PARTS)} == {NEWER}
    assert {DRIVER, *PARTS} <= held(line) and diff(line)["empty"]
    line.pdctl("destroy", "--yes").must()
    assert [line.inside(PACKAGES), line.inside(FILES), line.inside("getent passwd")] == before
