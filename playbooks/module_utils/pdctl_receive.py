"""Files that the controller has sent -> the same in the bundle of this host, and in the record's extras."""

from __future__ import annotations

import contextlib
import os
import shutil

from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_files import NEW, make_parents, missing_parents
from ansible.module_utils.pdctl_host_lock import host_lock
from ansible.module_utils.pdctl_journal import journaled
from ansible.module_utils.pdctl_record import Record
from ansible.module_utils.pdctl_rows import Row


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
        os.rename(new, path)
    except OSError as error:
        raise Problem(f"{path} was not written: {error.strerror}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
