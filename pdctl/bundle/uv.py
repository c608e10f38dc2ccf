"""uv out of its locked wheel, and the indexes that this machine's pip is told to use."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pdctl.bundle.collect import collect, default_folder
from pdctl.bundle.download import Progress
from pdctl.bundle.manifest import PARTIAL
from pdctl.errors import BundleError
from pdctl.knowledge.locks import INSTALLER

# pip's settings -> uv's variables of the same meaning (pip's and uv's reference of settings). uv reads none
# of pip's configuration, and a machine is told of its mirror through pip's.
FROM_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
}
# Whoever sets one of these has told uv itself.
OWN = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_CONFIG_FILE",
)
TRUE = ("1", "true", "yes", "on", "y", "t")  # as pip reads them
_SETTING = re.compile(r"(?:global|install|download|:env:)\.([a-z-]+)=(.*)")
_ADDRESS = re.compile(r"\b[a-z+]+://[^\s`'\"]+")


class UvError(Exception):
    """What uv said, without the addresses that it asked: those may carry passwords."""


def uv_program(progress: Progress) -> Path:
    """The program, fetched and checked as for hosts when it is not there yet."""
    folder = default_folder()
    wheels = [w for w in collect([], folder, progress=progress).wheels if w.name == INSTALLER]
    program = folder / "tools" / f"{INSTALLER}-{wheels[0].version}"
    if program.is_file():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / wheels[0].file) as wheel:
        inside = next(name for name in wheel.namelist() if name.endswith("/scripts/uv"))
        data = wheel.read(inside)
    with tempfile.TemporaryDirectory(dir=program.parent, prefix=PARTIAL) as staging:
        fresh = Path(staging, program.name)
        fresh.write_bytes(data)
        fresh.chmod(0o755)
        return fresh.replace(program)


def uv(program: Path, words: Sequence[str], folder: Path, settings: Settings) -> None:
    """Run it in `folder`, where it finds no project's settings. Raises UvError."""
    environment = {
        **os.environ,
        **settings.variables,
        "UV_PYTHON_DOWNLOADS": "never",  # what is resolved for is told by options
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        [str(program), *words, *settings.options],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UvError(_ADDRESS.sub("<index>", done.stderr.strip() or f"exit status {done.returncode}"))


class Settings(NamedTuple):
    """How uv is told of indexes."""

    variables: Mapping[str, str] = {}
    options: tuple[str, ...] = ()


def index_settings() -> list[Settings]:
    """pip's indexes as uv's settings, to be tried in this order; nothing where uv has settings of its own.

    pip takes the best file of all its indexes. uv takes those of a version from one index alone, so that an
    extra one which holds few builds would hide the others: it is asked only where the main one does not do.
    """
    if any(os.environ.get(name) for name in OWN) or _has_configuration():
        return [Settings()]
    told = _pip_settings()
    found = {FROM_PIP[name]: _joined(name, value) for name, value in told.items() if name in FROM_PIP}
    options = ("--no-index",) if told.get("no-index", "").lower() in TRUE else ()  # uv has no variable for it
    main = {name: value for name, value in found.items() if name != "UV_INDEX"}
    first = Settings(main, options)
    if main == found or options:
        return [first]
    return [first, Settings(found | {"UV_INDEX_STRATEGY": "unsafe-best-match"})]


def _joined(name: str, value: str) -> str:
    """pip parts several by white space; uv parts folders of wheels by commas."""
    return ("," if name == "find-links" else " ").join(value.split())


def _has_configuration() -> bool:
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    places = [Path(home), *map(Path, os.environ.get("XDG_CONFIG_DIRS", "/etc").split(":")), Path("/etc")]
    return any((place / "uv" / "uv.toml").is_file() for place in places)


def _pip_settings() -> dict[str, str]:
    """As `pip config list` tells them: one `global.index-url='...'` a line, variables last."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BundleError("pip's settings cannot be read", hint=f"{sys.executable} -m ensurepip")
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        if match := _SETTING.fullmatch(line):
            found[match[1]] = str(ast.literal_eval(match[2]))
    return found
