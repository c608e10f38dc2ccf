"""Directory -> the place of every file of one lab."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from pdctl.errors import LabError

# Overlay options split at `,` and `:`, ssh_config expands `%`, shells expand quotes and `$`: a directory with
# none of these needs no escaping in any of the three.
SAFE_PATH = re.compile(r"[\w./ @+=~-]+")


@dataclass(frozen=True)
class LabPaths:
    """Where the parts of the lab in `directory` lie; `directory` is absolute."""

    directory: Path

    @property
    def lab_id(self) -> str:
        """Names this lab's cgroup and machines, so that labs in other directories stay apart."""
        return "pdctl-lab-" + hashlib.sha256(str(self.directory).encode()).hexdigest()[:6]

    @property
    def lock(self) -> Path:
        return self.directory / "lock"

    @property
    def state(self) -> Path:
        return self.directory / "state.json"

    @property
    def ssh_config(self) -> Path:
        return self.directory / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def memory(self) -> Path:
        """A tmpfs with the hosts' own changes and the network namespaces: unmounting it forgets them."""
        return self.directory / "fs"

    @property
    def lab_netns(self) -> Path:
        return self.memory / "net" / "lab"

    def netns(self, host: str) -> Path:
        return self.memory / "net" / host

    def host(self, host: str) -> Path:
        return self.memory / "hosts" / host

    def root(self, host: str) -> Path:
        """The host's root directory, as its own processes see it but for what they mounted."""
        return self.host(host) / "root"

    def upper(self, host: str) -> Path:
        return self.host(host) / "upper"

    def console(self, host: str) -> Path:
        return self.host(host) / "console.log"

    def disk(self, host: str, path: str = "") -> Path:
        """What lies on the real disk of the host's `path`."""
        return self.directory / "disk" / host / path.lstrip("/")

    def service_log(self, port: int) -> Path:
        return self.memory / f"serve-{port}.log"


def lab_paths(directory: Path | str) -> LabPaths:
    """The lab of `directory`; refuses a name that some of the tools below would read differently."""
    return LabPaths(usable(Path(directory)))


def default_cache() -> Path:
    """Where base trees are kept between labs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pdctl" / "lab"


def usable(path: Path) -> Path:
    """`path` made absolute."""
    resolved = path.expanduser().resolve()
    if not SAFE_PATH.fullmatch(str(resolved)):
        raise LabError(
            f"the path `{resolved}` has characters that mount or ssh treat specially",
            hint="choose a directory of letters, digits, spaces and any of . / @ + = ~ - _",
        )
    return resolved
