"""An installed environment -> its imports tried as its services will: or what would go wrong in them."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from typing import Any

from ansible.module_utils import pdctl_try_imports
from ansible.module_utils.pdctl_difference import Problem
from ansible.module_utils.pdctl_observe_units import manager_environment
from ansible.module_utils.pdctl_rows import Row

# `import vllm` reads some 10,000 files; a slow disk that never saw them is allowed this.
IMPORTS_S = 300
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # systemd's own (systemd.exec(5))
COMPILED = (".so",)
OF_THE_DRIVER = ("libcuda.so", "libnvidia-ml.so")
UNTOUCHED = "nothing was switched to it, and what ran before goes on"
Proof = dict[str, Any]


def prove(row: Row) -> None:
    """Raises Problem at the first of `proofs` that does not hold."""
    for proof in map(json.loads, row.get("proofs") or ()):
        wrong = refusal(proof, row["path"], *outcome(proof, row["path"]))
        if wrong:
            held = ", ".join(f"{name} {version}" for name, version in proof["versions"].items())
            raise Problem(
                f"Python environment {row['path']}: tried as {proof['user']} with the variables of"
                f" {proof['name']}: {wrong}{f' ({held})' if held else ''}; {UNTOUCHED}"
            )


def outcome(proof: Proof, path: str, limit: float = IMPORTS_S) -> tuple[Proof | None, list[str]]:
    """What the program found, or None when it did not get that far; and the lines it printed."""
    account = pwd.getpwnam(proof["user"])
    folder = tempfile.mkdtemp(prefix="pdctl-proof-")
    try:
        os.chown(folder, account.pw_uid, account.pw_gid)
        printed = os.path.join(folder, "printed")
        with open(printed, "wb") as out:
            words = [os.path.join(path, "bin", "python"), "-c", inspect.getsource(pdctl_try_imports)]
            words += [json.dumps(proof), os.path.join(folder, "answer")]
            _run(words, environment(proof, folder), account, folder, out.fileno(), limit)
        return _answer(os.path.join(folder, "answer")), _lines(printed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def environment(proof: Proof, folder: str) -> dict[str, str]:
    """The unit's variables and those of the service manager; caches of its own, there or not."""
    home = dict(proof["environment"]).get("HOME", "")
    found = {"PATH": PATH, "LANG": "C.UTF-8", "USER": proof["user"], "LOGNAME": proof["user"]}
    found.update(manager_environment())
    for name, value in proof["environment"]:
        inside = bool(home) and (value == home or value.startswith(home + "/"))
        found[name] = folder + value[len(home) :] if inside else value
    return found


def refusal(proof: Proof, path: str, found: Proof | None, printed: list[str]) -> str:
    """Empty when all is as it must be."""
    if found is None:
        last = printed[-1] if printed else "it printed nothing"
        return f"its imports did not come to an end: {last}"
    if found["failed"]:
        return f"{found['failed']}. {mend(proof, found['failed'])}"
    return (
        _wrong_modules(proof, path, found)
        or _wrong_versions(proof, found)
        or _slow(proof, printed)
        or _wrong_ucx(proof, found)
    )


def _wrong_modules(proof: Proof, path: str, found: Proof) -> str:
    native = {name for names in proof["native"] for name in names}
    for name, place in found["modules"].items():
        if not place.startswith(path + "/"):
            mend = "look for PYTHONPATH in its variables and in `systemctl show-environment`"
            return f"{name} comes from {place or 'nowhere'}, not from this environment: {mend}"
        if name in native and not place.endswith(COMPILED):
            return f"{name} is {place}, a slow substitute in Python for its compiled module. {proof['mend']}"
    return ""


def _wrong_versions(proof: Proof, found: Proof) -> str:
    for name, wanted in proof["versions"].items():
        if not _same(found["versions"][name], wanted):
            return f"{name} is {found['versions'][name] or 'not there'}, the stack has {wanted}"
    if proof["cuda"] and found["cuda"].split(".")[0] != proof["cuda"]:
        return f"its torch is built for CUDA {found['cuda']}, the stack has CUDA {proof['cuda']}"
    return ""


def _same(version: str, wanted: str) -> bool:
    """`2.13.0+cu130` is `2.13.0`, and `0.11` is `0.11.0`; a pin that names a build means that build."""
    if "+" not in wanted:
        version = version.split("+")[0]
    return version == wanted or _numbers(version) == _numbers(wanted)


def _numbers(version: str) -> list[str]:
    parts = version.split(".")
    while parts and parts[-1] == "0":
        parts.pop()
    return parts


def _slow(proof: Proof, printed: list[str]) -> str:
    """What libraries say, and go on with something slower or worse."""
    for line in printed:
        if any(words in line for words in proof["alarms"]):
            return f"{line}. {mend(proof, line)}"
    return ""


def mend(proof: Proof, words: str) -> str:
    """No pin mends what the driver brings: without it nothing that was built for GPUs loads."""
    if any(name in words for name in OF_THE_DRIVER):
        return "The host has no NVIDIA driver: `pdctl apply --layer packages` installs the pinned one"
    return str(proof["mend"])


def _wrong_ucx(proof: Proof, found: Proof) -> str:
    if len(found["ucp"]) > 1:
        mend = "take the other one off LD_LIBRARY_PATH and LD_PRELOAD"
        return f"two UCX are loaded in one process, {' and '.join(found['ucp'])}: {mend}"
    if proof["ucx"] and found["ucx"] != proof["ucx"]:
        place = f" from {found['ucp'][0]}" if found["ucp"] else ""
        return f"UCX {found['ucx'] or 'none'} is loaded{place}, the stack has {proof['ucx']}"
    return ""


def _run(
    words: list[str],
    variables: dict[str, str],
    account: pwd.struct_passwd,
    folder: str,
    out: int,
    limit: float,
) -> None:
    """As the service's user, in a group of its own: with a hanging import its children end, too."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=folder,
            env=variables,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=os.getgrouplist(account.pw_name, account.pw_gid),
            start_new_session=True,
        )
    except PermissionError as error:
        os.write(out, f"{account.pw_name} cannot run {words[0]}: {error.strerror}\n".encode())
        return
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        os.write(out, f"no end within {limit:g} s\n".encode())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answer(path: str) -> Proof | None:
    try:
        with open(path, encoding="utf-8") as handle:
            return dict(json.load(handle))
    except (FileNotFoundError, ValueError):
        return None


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return [line.strip() for line in handle if line.strip()]
