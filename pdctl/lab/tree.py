"""Suite -> a base tree in the cache: the root file system that all hosts of all labs share read-only."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pdctl.errors import LabError
from pdctl.lab import cgroup
from pdctl.lab.customise import LOOKS, PACKAGES, SCRIPT, archive
from pdctl.lab.locking import locked
from pdctl.lab.mounts import is_lower_layer
from pdctl.lab.processes import run

OS_RELEASE = Path("/etc/os-release")
# A tmpfs that only the builder sees: mmdebstrap is 2 to 3 times faster there than on a disk (33 s against
# 94 s), and nothing stays mounted however the build ends.
BUILD = r"""
group=$1 work=$2 mirror=$3 suite=$4 packages=$5
echo 0 >"$group/cgroup.procs"
mkdir "$work/memory"
mount -t tmpfs -o size=2g,mode=755 pdctl-lab "$work/memory"
root=$work/memory/root
mmdebstrap --quiet --variant=minbase --mode=root --include="$packages" --dpkgopt=force-unsafe-io \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/doc/*' "$suite" "$root" "$mirror"
rm -f "$root"/etc/ssh/ssh_host_*
tar -C "$root" -xf "$work/files.tar"
sh -ec "$6" customise "$root"
cp -a "$root" "$work/tree"
"""


@dataclass(frozen=True)
class TreeSpec:
    """Which base tree: a Debian (or Ubuntu) suite, and the release that it pretends to be."""

    suite: str
    looks_like: str = "none"

    @property
    def key(self) -> str:
        """Names the tree; changes with everything that we put into it."""
        parts = [",".join(PACKAGES), SCRIPT, BUILD, hashlib.sha256(archive(self.looks_like)).hexdigest()]
        return f"{self.suite}-{self.looks_like}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]}"


def ready_tree(
    spec: TreeSpec, cache: Path, lab_id: str, *, force: bool = False, report: Callable[[str], None]
) -> Path:
    """The newest tree of `spec`, built first if there is none or if `force`."""
    if spec.looks_like not in (*LOOKS, "none"):
        raise LabError(f"no such look: `{spec.looks_like}`", hint=f"choose one of: none, {', '.join(LOOKS)}")
    with locked(cache / "lock", lambda: report("waiting for another lab that builds its base tree")):
        kept = _generations(cache / spec.key)
        if kept and not force:
            return kept[-1]
        report(f"building the base tree of {spec.suite} in {cache} (once; about a minute)")
        number = 1 + (int(kept[-1].name) if kept else 0)
        built = _build(spec, cache, lab_id)
        target = cache / spec.key / str(number)
        target.parent.mkdir(exist_ok=True)
        built.rename(target)
        shutil.rmtree(built.parent)
        _remove_older(spec, cache, target)
    return target


def remove_half_built(cache: Path, lab_id: str) -> None:
    """What a killed build left; the tmpfs it worked in went with its processes."""
    if _work(cache, lab_id).exists():
        shutil.rmtree(_work(cache, lab_id))


def remove_trees(tree: Path, cache: Path) -> None:
    """Remove a tree, and older ones of its kind, from the cache unless another lab still runs on them."""
    with locked(cache / "lock"):
        _remove_unused(tree.parent)


def default_suite(os_release: str | None = None) -> str:
    """bookworm; on Ubuntu the machine's own release, since an Ubuntu mirror has no Debian suite."""
    text = OS_RELEASE.read_text() if os_release is None else os_release
    values = _shell_values(text)
    return values["VERSION_CODENAME"] if values.get("ID") == "ubuntu" else "bookworm"


def mirror(suite: str, targets: str | None = None, os_release: str | None = None) -> str:
    """The archive that this machine's own apt sources name for `suite`, or for its own release."""
    if targets is None:
        targets = run(
            "apt-get",
            "indextargets",
            "--format",
            "$(REPO_URI) $(RELEASE) $(COMPONENT)",
            "Created-By: Packages",
        )
    rows = [line.split() for line in targets.splitlines()]
    own = _shell_values(OS_RELEASE.read_text() if os_release is None else os_release).get("VERSION_CODENAME")
    for wanted in (suite, own):
        for row in rows:
            if row[1:] == [wanted, "main"]:
                return row[0]
    raise LabError(
        f"this machine's apt sources name no archive for `{suite}`",
        hint="apt-get update (the list of archives is empty before it has run once)",
    )


def _build(spec: TreeSpec, cache: Path, lab_id: str) -> Path:
    """Build in a directory of the cache, inside the lab's cgroup so that `down` can end it too."""
    group = cgroup.lab_group(lab_id) / "build"
    cgroup.end(group)  # a build whose pdctl was killed may still run
    remove_half_built(cache, lab_id)
    group.mkdir(parents=True)
    work = _work(cache, lab_id)
    work.mkdir()
    (work / "files.tar").write_bytes(archive(spec.looks_like))
    try:
        run(
            "unshare", "--mount", "sh", "-ec", BUILD, "build",
            group, work, mirror(spec.suite), spec.suite, ",".join(PACKAGES), SCRIPT,
            hint=f"is `{spec.suite}` in the machine's archive? choose another: `pdctl lab build --suite`",
        )  # fmt: skip
    except BaseException:  # Ctrl-C too
        cgroup.end(group)
        remove_half_built(cache, lab_id)
        raise
    cgroup.end(group)
    return work / "tree"


def _work(cache: Path, lab_id: str) -> Path:
    return cache / f"building-{lab_id}"


def _generations(directory: Path) -> list[Path]:
    """Complete trees of one key, oldest first."""
    return sorted(directory.iterdir(), key=lambda path: int(path.name)) if directory.is_dir() else []


def _remove_older(spec: TreeSpec, cache: Path, newest: Path) -> None:
    """Trees of the same suite and look that this one replaces, also those of another version of pdctl."""
    for directory in cache.glob(f"{spec.suite}-{spec.looks_like}-*"):
        _remove_unused(directory, keep=newest)


def _remove_unused(directory: Path, keep: Path | None = None) -> None:
    """Remove the generations of one key that no lab runs on, and the directory with the last of them."""
    for tree in _generations(directory):
        if tree != keep and not is_lower_layer(tree):
            shutil.rmtree(tree)
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()


def _shell_values(text: str) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: "".join(shlex.split(value)) for key, value in pairs}
