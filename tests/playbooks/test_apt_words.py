"""What apt and dpkg print when something fails, in words that name the repository, the key or the disk."""

from __future__ import annotations

import pytest
from ansible.module_utils.pdctl_apt_words import full_disk, needed, reasons, troubles

# As apt 2.6.1 prints it for a repository whose key has expired, is missing, or that was there before.
EXPIRED = (
    "W: GPG error: http://mirror.example/doca ./ InRelease: The following signatures were invalid:"
    " EXPKEYSIG 1817BD6147344462 Old Vendor <old@example.org>\n"
    "E: The repository 'http://mirror.example/doca ./ InRelease' is not signed.\n"
)
MISSING = (
    "W: GPG error: http://mirror.example/ubuntu jammy InRelease: The following signatures couldn't be"
    " verified because the public key is not available: NO_PUBKEY A4B469963BF863CC\n"
    "E: The repository 'http://mirror.example/ubuntu jammy InRelease' is not signed.\n"
)
KEPT = (
    "W: An error occurred during the signature verification. The repository is not updated and the previous"
    " index files will be used. GPG error: http://mirror.example/doca ./ InRelease: The following signatures"
    " were invalid: EXPKEYSIG 1817BD6147344462 Old Vendor <old@example.org>\n"
    "E: Failed to fetch http://mirror.example/doca/./InRelease  The following signatures were invalid\n"
)
SILENT = (
    "E: Failed to fetch http://10.0.0.9:8080/dists/jammy/InRelease  Connection failed [IP: 10.0.0.9 8080]\n"
    "E: Some index files failed to download. They have been ignored, or old ones used instead.\n"
)
GONE = "E: The repository 'file:/srv/none ./ Release' does not have a Release file.\n"


@pytest.mark.parametrize(
    ("stderr", "says"),
    [
        (
            EXPIRED,
            "http://mirror.example/doca is signed with a key that has expired: EXPKEYSIG 1817BD6147344462"
            " (Old Vendor <old@example.org>)",
        ),
        (KEPT, "http://mirror.example/doca is signed with a key that has expired: EXPKEYSIG 1817BD61"),
        (
            MISSING,
            "http://mirror.example/ubuntu is signed with a key that this host does not have:"
            " NO_PUBKEY A4B469963BF863CC;",
        ),
        (SILENT, "http://10.0.0.9:8080 gives no InRelease: Connection failed [IP: 10.0.0.9 8080]"),
        (GONE, "file:/srv/none does not have a Release file"),
    ],
)
def test_a_repository_is_named_once_with_what_is_wrong(stderr: str, says: str) -> None:
    (said,) = troubles(stderr)
    assert said.startswith(says)


def test_several_repositories_are_all_named() -> None:
    assert len(troubles(EXPIRED + MISSING + SILENT)) == 3
    assert troubles("W: Some warning about Acquire\n") == []


def test_a_full_disk_is_named_by_the_folder_that_was_written_to(tmp_path: object) -> None:
    said = full_disk(
        "dpkg: error processing archive x.deb (--unpack):\n"
        f" cannot copy extracted data for './x' to '{tmp_path}/gone/x.dpkg-new': failed to write"
        " (No space left on device)\n"
    )
    assert said.startswith(f"the disk that {tmp_path} is on is full (") and said.endswith(" MB free)")
    assert full_disk("E: You don't have enough free space in /var/cache/apt/archives/.")
    assert full_disk("E: Sub-process /usr/bin/dpkg returned an error code (1)") == ""


def test_what_does_not_go_together_is_told_with_each_package() -> None:
    stdout = (
        "The following packages have unmet dependencies:\n"
        " cuda-drivers-fabricmanager-535 : Depends: nvidia-fabricmanager-535 (= 535.183.01-1) but"
        " 535.216.01-0ubuntu1 is to be installed\n"
    )
    stderr = "E: Unable to correct problems, you have held broken packages.\n"
    assert "but 535.216.01-0ubuntu1 is to be installed" in reasons(stdout, stderr)
    assert needed(stdout) == {"nvidia-fabricmanager-535": "535.183.01-1"}
