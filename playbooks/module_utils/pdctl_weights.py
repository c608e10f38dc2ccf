"""Rows of weights -> the files on this host, fetched once, read once, and known to be whole."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import pwd
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import IO

from ansible.module_utils import pdctl_fetch_weights
from ansible.module_utils.pdctl_audience import stay_for_audience
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_files import NEW, make_parents, remove_tree
from ansible.module_utils.pdctl_observe_weights import CHECKED, marker_path, structure
from ansible.module_utils.pdctl_rows import Row

READERS = 4
LOOK_S = 1.0
FETCHED = "models--"  # how huggingface_hub names its folders
# What else it writes (huggingface_hub constants.py), and our own lock; transformers keeps code in `modules`.
OF_CACHE = (".locks", "CACHEDIR.TAG", "version.txt", ".pdctl-fetch.lock")
OF_HOME = ("xet", "assets", "modules")
NEXT = "no engine was started with it"


def put_weights(row: Row) -> str:
    """What was done, beyond the row's own words."""
    if row.get("given"):
        check_given(row)
        return ""
    answer = fetched(row)
    if "error" in answer:
        raise Problem(f"model {row['repo']}: {answer['error']}; {NEXT}")
    folder = os.path.join(row["path"], "snapshots", answer["commit"])
    wrong = structure(folder)
    if wrong:
        raise Problem(f"model {row['repo']} in {folder}: {'; '.join(wrong[:5])}; {NEXT}")
    write_marker(row, {"commit": answer["commit"], "folder": folder, "files": answer["files"]})
    sums = f"{answer['fetched']} bytes fetched, {len(answer['files'])} files checked"
    return f"{row['repo']} {answer['commit'][:12]}: {sums}"


def check_given(row: Row) -> None:
    """A folder that somebody else fills: it is looked at, never changed."""
    path = row["path"]
    if not os.path.exists(path):
        raise Problem(f"model {path}: no such folder on this host: copy or mount the weights there; {NEXT}")
    wrong = structure(path)
    folder, name = (path, "") if os.path.isdir(path) else os.path.split(path)
    manifest = "" if name else row.get("manifest")
    if not wrong and manifest:
        wanted = json.loads(manifest)["files"]
        with ThreadPoolExecutor(READERS) as pool:
            found = pool.map(lambda item: differs(path, *item), sorted(wanted.items()))
            wrong = [text for text in found if text]
    if wrong:
        raise Problem(f"model {path}: {'; '.join(wrong[:5])}: copy it there again; {NEXT}")
    names = json.loads(manifest)["files"] if manifest else [name] if name else sorted(os.listdir(path))
    files = {n: stat_of(os.path.join(folder, n)) for n in names if os.path.isfile(os.path.join(folder, n))}
    write_marker(row, {"commit": "", "folder": folder, "files": files})


def differs(folder: str, name: str, wanted: Row) -> str:
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return f"{name} is missing"
    size = os.path.getsize(path)
    if size != wanted["size"]:
        return f"{name} has {size} bytes, not {wanted['size']}"
    state = hashlib.sha256() if "sha256" in wanted else hashlib.sha1(b"blob %d\0" % size)
    sum_ = wanted.get("sha256") or wanted.get("git") or ""
    same = not sum_ or pdctl_fetch_weights.digest(path, state) == sum_
    return "" if same else f"{name} has another checksum than {sum_[:12]}..."


def fetched(row: Row) -> Row:
    account = pwd.getpwnam(row["owner"])
    with tempfile.TemporaryDirectory(prefix="pdctl-weights-") as folder:
        os.chown(folder, account.pw_uid, account.pw_gid)
        answer = os.path.join(folder, "answer")
        with tempfile.TemporaryFile() as printed:
            run(row, account, folder, answer, printed)
            printed.seek(0)
            said = printed.read().decode("utf-8", "replace").strip().splitlines()
        try:
            with open(answer, encoding="utf-8") as handle:
                return dict(json.load(handle))
        except (FileNotFoundError, ValueError):
            return {
                "error": f"its download ended without a word; it printed: {said[-1] if said else 'nothing'}"
            }


def run(row: Row, account: pwd.struct_passwd, folder: str, answer: str, printed: IO[bytes]) -> None:
    """As the service user; a token is in the program's environment and in no other place."""
    words = [os.path.join(row["tool"], "bin", "python"), "-c", inspect.getsource(pdctl_fetch_weights), answer]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=printed,
            cwd=folder,
            env=environment(row, folder),
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[account.pw_gid],
            start_new_session=True,
        )
    except FileNotFoundError:
        raise Problem(f"model {row['repo']}: {words[0]} is not on this host; {NEXT}") from None
    asked = {
        "repo": row["repo"],
        "revision": row["revision"],
        "cache": os.path.dirname(row["path"]),
        "offline": bool(row.get("offline")),
        "manifest": json.loads(row["manifest"]) if row.get("manifest") else None,
    }
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(json.dumps(asked).encode())
        while process.poll() is None:
            stay_for_audience()  # a download that nobody waits for would only be in the next one's way
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def environment(row: Row, folder: str) -> dict[str, str]:
    found = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": folder,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        **dict(row.get("environment") or ()),
    }
    secrets = read_secrets(row.get("secrets") or "")
    token = secrets.get("HF_TOKEN") or secrets.get("HUGGING_FACE_HUB_TOKEN") or ""
    return {**found, **({"HF_TOKEN": token} if token else {})}


def read_secrets(path: str) -> dict[str, str]:
    """The inverse of `pdctl_files.render_environment`; none when the file is not there."""
    found = {}
    try:
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
    except FileNotFoundError:
        return {}
    for line in text.split('"\n'):
        name, quote, value = line.partition('="')
        if quote:
            found[name] = _unquoted(value)
    return found


def write_marker(row: Row, marker: Row) -> None:
    path = marker_path(row)
    marker = {**marker, "path": row["path"], "revision": row["revision"]}
    make_parents(path)
    with open(path + NEW, "w", encoding="utf-8") as handle:
        json.dump(marker, handle)
        handle.flush()
        os.fsync(handle.fileno())
    os.rename(path + NEW, path)


def remove_weights(path: str) -> None:
    """Only what was fetched: a folder that somebody else filled stays as it is."""
    forget_check(path)
    if os.path.basename(path).startswith(FETCHED):
        remove_tree(path)
        sweep(os.path.dirname(path))


def sweep(cache: str) -> None:
    """With its last model goes what huggingface_hub keeps beside them: locks, tags, pieces and code."""
    if not os.path.isdir(cache) or any(name.startswith(FETCHED) for name in os.listdir(cache)):
        return
    for folder, names in ((cache, OF_CACHE), (os.path.dirname(cache), OF_HOME)):
        for name in names:
            remove_tree(os.path.join(folder, name))


def forget_check(path: str) -> None:
    for name in os.listdir(CHECKED) if os.path.isdir(CHECKED) else []:
        if name.startswith(os.path.basename(path.rstrip("/")) + "-"):
            os.unlink(os.path.join(CHECKED, name))
    with contextlib.suppress(OSError):
        os.rmdir(CHECKED)


def stat_of(path: str) -> list[int]:
    info = os.stat(path)
    return [info.st_size, info.st_mtime_ns]


def _unquoted(value: str) -> str:
    out, escaped = [], False
    for letter in value:
        if letter == "\\" and not escaped:
            escaped = True
            continue
        out.append(letter)
        escaped = False
    return "".join(out)
