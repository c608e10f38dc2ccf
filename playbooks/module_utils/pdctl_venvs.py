"""Venv rows -> Python environments, built beside and swapped in whole."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import subprocess
import zipfile
from typing import Any

from ansible.module_utils.pdctl_difference import Problem, difference
from ansible.module_utils.pdctl_files import make_parents, remove_tree
from ansible.module_utils.pdctl_observe_venvs import MARKER, observe_venv, scan
from ansible.module_utils.pdctl_proofs import prove
from ansible.module_utils.pdctl_rows import Row

NEW, OLD = ".new", ".old"
BUILD = ".pdctl-build"  # beside the venvs, so that uv can hard-link from its cache instead of copying
PROOFS = 16  # trials of earlier generations that a marker remembers, for a rollback to them
PYTHONS = "python"  # below the prefix: interpreters that uv fetched, which venvs go on using


def put_venvs(rows: list[Row], bundle: str) -> None:
    """First all are built, then all are tried: one that fails costs no other one its building."""
    build_venvs([row for row in rows if not is_built(row)], bundle)
    for row in rows:
        if row.get("proof"):
            prove(row)
            note_proof(row)


def is_built(row: Row) -> bool:
    """Whether it is as it must be but for what has been tried with it."""
    have = observe_venv(row)
    return have is not None and not difference(dict(row, proof=""), have)


def build_venvs(rows: list[Row], bundle: str) -> None:
    for folder in sorted({os.path.dirname(row["path"]) for row in rows}):
        make_parents(os.path.join(folder, BUILD))
        build = os.path.join(folder, BUILD)
        try:
            remove_tree(build)
            os.mkdir(build, 0o700)
            uv = unpack_uv(bundle, build)
            for row in rows:
                if os.path.dirname(row["path"]) == folder:
                    put_venv(row, bundle, uv)
        except OSError as error:
            raise Problem(f"Python environments in {folder}: {error.strerror} ({error.filename})") from None
        finally:
            remove_tree(build)


def put_venv(row: Row, bundle: str, uv: str) -> None:
    """The marker is written last, the old one stays until the new one is whole."""
    path, new, old = row["path"], row["path"] + NEW, row["path"] + OLD
    remove_tree(new)
    try:
        install(row, bundle, uv, new)
        write_marker(new, row)
        remove_tree(old)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, old)
        os.rename(new, path)
    finally:
        remove_tree(new)
        remove_tree(old)


def install(row: Row, bundle: str, uv: str, new: str) -> None:
    """From the bundle an exact list, without resolving: what the lock names is what is installed.

    Byte code is compiled now: services cannot write into the environment, so each of their starts would.
    """
    build = os.path.dirname(uv)
    lines = os.path.join(build, "requirements.txt")
    with open(lines, "w", encoding="utf-8") as handle:
        handle.write("\n".join(row.get("requirements") or ()) + "\n")
    python = os.path.join(new, "bin", "python")
    _uv(row, [uv, "venv", "--relocatable", "--no-project", "--python", row["python"], new], bundle)
    command = [uv, "pip", "install", "--python", python, "--compile-bytecode", "-r", lines]
    if row.get("wheels"):
        folders = sorted({os.path.dirname(path) for path in wheel_paths(bundle, "*")})
        command += ["--no-deps", "--no-index", "--require-hashes"] + [
            word for f in folders for word in ("--find-links", f)
        ]
    elif row.get("requirements") and all("--hash=" in line for line in row["requirements"]):
        command += ["--no-deps", "--require-hashes"]  # a lock names every wheel: nothing is left to resolve
    if row.get("requirements"):
        _uv(row, command, bundle)


def write_marker(path: str, row: Row) -> None:
    _write(path, {"digest": row["digest"], "python": row["python"], "manifest": scan(path), "proofs": []})


def note_proof(row: Row) -> None:
    with open(os.path.join(row["path"], MARKER), encoding="utf-8") as handle:
        marker = json.load(handle)
    earlier = [proof for proof in marker.get("proofs") or () if proof != row["proof"]]
    _write(row["path"], dict(marker, proofs=[*earlier, row["proof"]][-PROOFS:]))


def _write(path: str, marker: dict[str, Any]) -> None:
    target = os.path.join(path, MARKER)
    with open(target + NEW, "w", encoding="utf-8") as handle:
        json.dump(marker, handle)
        handle.flush()
        os.fsync(handle.fileno())
    os.rename(target + NEW, target)


def unpack_uv(bundle: str, build: str) -> str:
    """The uv binary out of its wheel in the bundle; it is needed only while building."""
    wheels = wheel_paths(bundle, "uv")
    if not wheels:
        raise Problem(f"no wheel of uv in {bundle} on this host")
    uv = os.path.join(build, "uv")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        names = [name for name in wheel.namelist() if name.endswith("/scripts/uv")]
        if not names:
            raise Problem(f"{wheels[-1]} holds no uv program")
        with wheel.open(names[0]) as source, open(uv, "wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
    os.chmod(uv, 0o700)
    return uv


def wheel_paths(bundle: str, name: str) -> list[str]:
    return sorted(glob.glob(os.path.join(glob.escape(bundle), "**", f"{name}-*.whl"), recursive=True))


def remove_venv(path: str) -> None:
    remove_tree(path)
    clear_venv(path)


def clear_venv(path: str) -> None:
    """What an interrupted run left beside it."""
    for name in (path + NEW, path + OLD, os.path.join(os.path.dirname(path), BUILD)):
        remove_tree(name)


def _uv(row: Row, command: list[str], bundle: str) -> None:
    build = os.path.dirname(command[0])
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": build,
        "UV_CACHE_DIR": os.path.join(build, "cache"),
        "UV_PYTHON_INSTALL_DIR": os.path.join(os.path.dirname(bundle), PYTHONS),
        "UV_PYTHON_DOWNLOADS": "never" if row.get("wheels") else "automatic",
        "UV_NO_CONFIG": "1",
    }
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        check=False,
    )
    if done.returncode:
        said = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        raise Problem(f"Python environment {row['path']}: uv {command[1]}: {' / '.join(said[-6:])}")
