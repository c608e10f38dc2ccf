"""Files that the controller has sent -> the same in the bundle of this host, and in the record's extras."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil

from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_files import NEW, make_parents, missing_parents, remove_tree, sync_folder
from ansible.module_utils.pdctl_host_lock import host_lock
from ansible.module_utils.pdctl_journal import journaled
from ansible.module_utils.pdctl_record import Record
from ansible.module_utils.pdctl_rows import Row

SENT = "/var/tmp/pdctl-{}.*"  # folders of a cluster that the controller sends files to


def receive(request: Row, sent: str, files: dict[str, int], did: list[str]) -> None:
    """`files`: {path below the bundle: its size}, lying under the same paths in the folder `sent`."""
    with host_lock(), journaled(request, did):
        record = Record(request["record"], request["cluster"])
        targets = {name: os.path.join(request["bundle"], name) for name in files}
        made = [parent for path in targets.values() for parent in missing_parents(path)]
        record.intend(
            [], {}, list(dict.fromkeys([*made, *(p for p in targets.values() if not os.path.exists(p))]))
        )
        for name, path in targets.items():
            take(os.path.join(sent, name), path, files[name])
            did.append(f"copy {path}")
        clear_sent(request["cluster"])


def clear_sent(cluster: str) -> None:
    """What the controller sent to this host, also in a transfer that was cut off before this one."""
    for folder in glob.glob(SENT.format(cluster)):
        remove_tree(folder)


def take(source: str, path: str, size: int) -> None:
    """A move where it is one file system, else a copy beside and a rename."""
    new = path + NEW
    if os.path.getsize(source) != size:
        raise Problem(f"{path}: {os.path.getsize(source)} of {size} bytes arrived")
    make_parents(path)
    try:
        shutil.move(source, new)
        os.chown(new, 0, 0)
        os.chmod(new, 0o644)
        with open(new, "rb") as handle:
            os.fsync(
                handle.fileno()
            )  # by its size alone a file that a power cut emptied would pass for whole
        os.rename(new, path)
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise Problem(f"{path} was not written: {error.strerror}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
