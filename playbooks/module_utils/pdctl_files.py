"""User, directory and file rows -> the same on this host, each file either as before or whole."""

from __future__ import annotations

import base64
import contextlib
import grp
import hashlib
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterable

from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_rows import Row

NEW = (
    ".pdctl-new"  # beside the target; a fixed name, so that the next run clears what an interrupted one left
)
CHUNK = 1 << 20


def put_user(row: Row, have: Row | None) -> None:
    """A system user and its group of the same name; its home is not made."""
    name, home, shell = row["name"], row["home"], row["shell"]
    if have:
        # Without a prefix usermod refuses while any process of the user runs (shadow 4.8 to 4.13, user_busy).
        command = ["usermod", "--prefix", "/.", "--home", home, "--shell", shell, name]
    else:
        command = ["useradd", "--system", "--home-dir", home, "--no-create-home", "--shell", shell]
        command += ["--gid", name] if _group_exists(name) else ["--user-group"]
        command.append(name)
    run(command, f"user {name}")


def put_directory(row: Row) -> None:
    path = row["path"]
    make_parents(path)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except NotADirectoryError:
        raise Problem(f"{path} is not a directory: move it away, then apply again") from None
    except OSError as error:
        raise Problem(f"{path} cannot be made: {error.strerror}") from None
    try:
        os.fchown(folder, *_ids(row))
        os.fchmod(folder, int(row["mode"], 8))
    finally:
        os.close(folder)


def put_file(row: Row, bundle: str, secret: bytes | None) -> None:
    """From `secret` (bytes), from the row's content, or from its source in the bundle; digest checked."""
    if row.get("secret"):
        if secret is None:
            raise Problem(f"{row['path']}: the values of this secret file were not handed over")
        write_file(row, [secret])
    elif row.get("content") is not None:
        write_file(row, [base64.b64decode(row["content"])])
    elif row.get("source"):
        source = os.path.join(bundle, row["source"])
        try:
            with open(source, "rb") as handle:
                write_file(row, iter(lambda: handle.read(CHUNK), b""))
        except FileNotFoundError:
            raise Problem(f"{row['path']}: its source {source} is not on this host") from None
    else:
        raise Problem(f"{row['path']}: neither content nor source was handed over")


def write_file(row: Row, chunks: Iterable[bytes]) -> None:
    """Write beside, sync, give away, rename, sync the folder: what was there stays until all is written."""
    path = row["path"]
    new = path + NEW
    make_parents(path)
    if os.path.isdir(path) and not os.path.islink(path):
        raise Problem(f"{path} is a directory where a file must be: move it away, then apply again")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        digest = _fill(new, row, chunks)
        if not row.get("secret") and digest != row["digest"]:
            raise Problem(f"{path}: its source has digest {digest}, wanted {row['digest']}")
        os.rename(new, path)
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise Problem(
            f"{path} was not written: {error.strerror}; what was there before is unchanged"
        ) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


def render_environment(values: dict[str, str]) -> bytes:
    """NAME="value" lines as systemd.exec(5) reads an EnvironmentFile: \\ " $ ` escaped, no specifiers."""
    lines = []
    for name, value in values.items():
        if "\0" in value:
            raise Problem(f"the value of {name} holds a NUL byte, which no environment variable can")
        quoted = "".join("\\" + letter if letter in '\\"$`' else letter for letter in value)
        lines.append(f'{name}="{quoted}"\n')
    return "".join(lines).encode()


def make_parents(path: str) -> None:
    """Parents that nobody asked for are root's and readable by all."""
    parent = os.path.dirname(path)
    try:
        os.makedirs(parent, 0o755, exist_ok=True)
    except OSError as error:
        raise Problem(f"{parent} cannot be made: {error.strerror}") from None


def missing_parents(path: str) -> list[str]:
    """The parents of `path` that are not there yet, outermost first."""
    missing: list[str] = []
    parent = os.path.dirname(path)
    while not os.path.lexists(parent):
        missing.insert(0, parent)
        parent = os.path.dirname(parent)
    return missing


def remove_file(path: str) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)
    clear_file(path)


def clear_file(path: str) -> None:
    """What an interrupted run left beside it."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path + NEW)


def remove_tree(path: str) -> None:
    """A folder and all below it, a link itself, or nothing."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(info.st_mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def run(command: list[str], what: str) -> str:
    """A command that must succeed; its standard output."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            check=False,
        )
    except FileNotFoundError:
        raise Problem(f"{what}: {command[0]} is not installed on this host") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise Problem(f"{what}: {command[0]}: {' / '.join(said[-3:]) or f'exit status {done.returncode}'}")
    return done.stdout.decode("utf-8", "replace")


def _fill(new: str, row: Row, chunks: Iterable[bytes]) -> str:
    sha = hashlib.sha256()
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as out:
        for chunk in chunks:
            sha.update(chunk)
            out.write(chunk)
        out.flush()
        os.fchown(out.fileno(), *_ids(row))
        os.fchmod(out.fileno(), int(row["mode"], 8))
        os.fsync(out.fileno())
    return "sha256:" + sha.hexdigest()


def _ids(row: Row) -> tuple[int, int]:
    try:
        return pwd.getpwnam(row["owner"]).pw_uid, grp.getgrnam(row["group"]).gr_gid
    except KeyError as error:
        raise Problem(f"{row['path']}: {error.args[0]}") from None


def _group_exists(name: str) -> bool:
    return any(entry.gr_name == name for entry in grp.getgrall())
