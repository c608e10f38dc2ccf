import io
import tarfile
from pathlib import Path

import pytest

from pdctl.errors import LabError
from pdctl.lab.customise import MASKED, archive
from pdctl.lab.mounts import is_lower_layer, mounts_under
from pdctl.lab.tree import TreeSpec, default_suite, mirror, ready_tree

TARGETS = """http://mirror.test/debian/ bookworm main
http://mirror.test/debian/ bookworm contrib
http://mirror.test/debian-security/ bookworm-security main
http://other.test/vendor/ trixie main
"""
BOOKWORM = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_CODENAME=bookworm\n'
NOBLE = 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n'
MOUNTINFO = """21 1 254:0 / / rw - ext4 /dev/vda rw
30 21 0:40 / /srv/lab/fs rw - tmpfs pdctl-lab-1 rw
31 30 0:41 / /srv/lab/fs/hosts/h1/root rw - overlay x rw,lowerdir=/cache/a/1,upperdir=/u,workdir=/w
32 21 0:42 / /srv/lab\\0402/fs rw - overlay x rw,lowerdir=/cache/a\\040b/1,upperdir=/u,workdir=/w
33 21 0:43 / /srv/lab/fs rw - tmpfs twice rw
34 21 0:44 / /srv/lab/fs2 rw - tmpfs other rw
"""


def files(looks_like: str) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive(looks_like))) as tar:
        return {f"/{member.name}": member for member in tar.getmembers()}


def content(looks_like: str, path: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(archive(looks_like))) as tar:
        file = tar.extractfile(path.lstrip("/"))
        assert file
        return file.read().decode()


def test_the_mirror_is_the_one_of_the_suite_and_else_of_the_machines_own_release() -> None:
    assert mirror("trixie", TARGETS, BOOKWORM) == "http://other.test/vendor/"
    assert mirror("bookworm", TARGETS, BOOKWORM) == "http://mirror.test/debian/"
    assert mirror("sid", TARGETS, BOOKWORM) == "http://mirror.test/debian/"


def test_a_machine_that_never_asked_its_mirrors_is_told_to() -> None:
    with pytest.raises(LabError, match="no archive for `bookworm`") as caught:
        mirror("bookworm", "", BOOKWORM)
    assert caught.value.hint and caught.value.hint.startswith("apt-get update")


def test_hosts_are_bookworm_but_on_ubuntu_of_its_own_release() -> None:
    assert default_suite(BOOKWORM) == "bookworm"
    assert default_suite(BOOKWORM.replace("bookworm", "trixie")) == "bookworm"
    assert default_suite(NOBLE) == "noble"


def test_a_tree_is_known_by_suite_look_and_content() -> None:
    keys = {
        TreeSpec(suite, look).key for suite in ("bookworm", "trixie") for look in ("none", "jammy", "noble")
    }
    assert len(keys) == 6
    assert TreeSpec("bookworm").key == TreeSpec("bookworm").key


def test_the_customisation_is_the_same_bytes_each_time() -> None:
    assert archive("noble") == archive("noble")


def test_only_root_owns_what_is_put_into_the_tree_and_sudo_accepts_its_rules() -> None:
    members = files("none")
    assert {(member.uid, member.gid) for member in members.values()} == {(0, 0)}
    assert members["/etc/sudoers.d/pdctl-lab"].mode == 0o440  # sudo ignores rules that others may write
    assert members["/usr/sbin/modprobe"].mode == 0o755
    assert all(members[f"/etc/systemd/system/{unit}"].linkname == "/dev/null" for unit in MASKED)


def test_a_host_says_that_it_is_the_release_it_is_asked_to_look_like() -> None:
    assert "VERSION_CODENAME=jammy\nID=ubuntu\n" in content("jammy", "/usr/lib/os-release")
    assert 'VERSION_ID="24.04"' in content("noble", "/usr/lib/os-release")
    assert "/usr/lib/os-release" not in files("none")


def test_an_unknown_look_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no such look: `focal`"):
        ready_tree(TreeSpec("bookworm", "focal"), tmp_path, "lab", report=print)
    assert not list(tmp_path.iterdir())


def test_mounts_of_a_lab_are_found_deepest_first_and_no_neighbour_with_them() -> None:
    found = [str(path) for path in mounts_under(Path("/srv/lab/fs"), MOUNTINFO)]
    assert found == ["/srv/lab/fs/hosts/h1/root", "/srv/lab/fs", "/srv/lab/fs"]
    assert mounts_under(Path("/srv/lab 2"), MOUNTINFO) == [Path("/srv/lab 2/fs")]


def test_a_tree_is_in_use_while_an_overlay_shows_it() -> None:
    assert is_lower_layer(Path("/cache/a/1"), MOUNTINFO)
    assert is_lower_layer(Path("/cache/a b/1"), MOUNTINFO)
    assert not is_lower_layer(Path("/cache/a"), MOUNTINFO)
    assert not is_lower_layer(Path("/cache/a/11"), MOUNTINFO)
