"""A program for an engine's own Python: one revision of a model from the Hub, whole and checked."""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import importlib
import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Row = dict[str, Any]
# What engines do not load (vLLM config/load.py: `original/**/*`), and formats besides safetensors.
ASIDE = ("original/*", "metal/*", "onnx/*", "coreml/*", "openvino/*")
BESIDE = ("*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.gguf", "*.onnx", "*.ot", "*.tflite", "*.mlmodel")
READERS = 4
RESERVE = 1 << 30  # bytes that a disk keeps free beside the model
CHUNK = 1 << 22


class Refused(Exception):
    """Why the model cannot be had, for the user."""


def main(asked: Row, path: str) -> None:
    try:
        with alone(asked["cache"]):
            answer = fetch(asked)
    except Refused as error:
        answer = {"error": str(error)}
    except OSError as error:
        answer = {"error": f"{error.filename or asked['cache']}: {error.strerror or error}"}
    with open(path, "w", encoding="utf-8") as handle:
        json.dump(answer, handle)


class alone:  # noqa: N801 - reads as a word
    """One download at a time into this folder, also by hosts that share it."""

    def __init__(self, cache: str) -> None:
        self.path = os.path.join(cache, ".pdctl-fetch.lock")

    def __enter__(self) -> None:
        self.handle = open(self.path, "a", encoding="ascii")
        fcntl.lockf(self.handle, fcntl.LOCK_EX)

    def __exit__(self, *error: object) -> None:
        self.handle.close()


def fetch(asked: Row) -> Row:
    manifest = asked.get("manifest") or (local(asked) if asked["offline"] else from_hub(asked))
    files = manifest["files"]
    missing = {n: f for n, f in files.items() if not is_there(asked, manifest["commit"], n, f["size"])}
    if missing and asked["offline"]:
        raise Refused(f"{len(missing)} of {len(files)} files lack, and this host is offline: {some(missing)}")
    if missing:
        refuse_small_disk(asked, missing)
        download(asked, manifest, sorted(files))
    check(asked, manifest)
    folder = snapshot(asked, manifest["commit"])
    return {
        "commit": manifest["commit"],
        "fetched": sum(file["size"] for file in missing.values()),
        "files": {name: stat_of(os.path.join(folder, name)) for name in files},
    }


def from_hub(asked: Row) -> Row:
    """What the revision holds, as the Hub says now: a name of a branch becomes a commit."""
    info = told(
        asked,
        lambda: hub().HfApi().model_info(asked["repo"], revision=asked["revision"], files_metadata=True),
    )
    found = {}
    for each in info.siblings:
        sums = {"sha256": each.lfs["sha256"]} if each.lfs else {"git": each.blob_id}
        found[each.rfilename] = {"size": each.size, **sums}
    names = chosen(found)
    if not any(name.endswith((".safetensors", ".bin", ".pt", ".gguf")) for name in names):
        raise Refused(f"revision {asked['revision']} of {asked['repo']} holds no weights: {some(found)}")
    return {"commit": info.sha, "files": {name: found[name] for name in names}}


def local(asked: Row) -> Row:
    """What lies here of the revision; without a manifest nobody knows more of it."""
    named = os.path.join(repo_folder(asked), "refs", asked["revision"])
    commit = asked["revision"]
    if os.path.isfile(named):
        with open(named, encoding="ascii") as handle:
            commit = handle.read().strip()
    folder = snapshot(asked, commit)
    names = [
        os.path.relpath(os.path.join(where, name), folder)
        for where, _, files in os.walk(folder)
        for name in files
    ]
    if not names:
        hint = "copy that folder here from a host that has it, or name the weights' folder in `model.path`"
        raise Refused(
            f"this host is offline and has no revision {asked['revision']} in {repo_folder(asked)}: {hint}"
        )
    files = {n: {"size": os.path.getsize(os.path.join(folder, n))} for n in chosen(names)}
    return {"commit": commit, "files": files}


def chosen(names: Any) -> list[str]:
    kept = [n for n in names if not any(fnmatch.fnmatch(n, pattern) for pattern in ASIDE)]
    if any(name.endswith(".safetensors") for name in kept):
        kept = [n for n in kept if not any(fnmatch.fnmatch(n, pattern) for pattern in BESIDE)]
    return sorted(kept)


def refuse_small_disk(asked: Row, missing: Row) -> None:
    needed = sum(file["size"] for file in missing.values())
    free = shutil.disk_usage(asked["cache"]).free
    if free < needed + RESERVE:
        raise Refused(
            f"{asked['cache']} has {free} bytes free; {len(missing)} files of {asked['repo']} need {needed}"
            f" more, and {RESERVE} shall stay free: make room, or mount a larger disk there"
        )


def download(asked: Row, manifest: Row, names: list[str]) -> None:
    clear_pieces(asked)
    revision = asked["revision"] if not asked.get("manifest") else manifest["commit"]
    folder = told(
        asked,
        lambda: hub().snapshot_download(
            asked["repo"], revision=revision, cache_dir=asked["cache"], allow_patterns=names
        ),
    )
    if os.path.basename(folder) != manifest["commit"]:
        raise Refused(f"revision {revision} of {asked['repo']} moved during the download: pin a commit")


def clear_pieces(asked: Row) -> None:
    """What a killed download has left and no other one goes on with (huggingface_hub 2.4, file_download.py).

    Those of releases before 1.0 have a fixed name, and are gone on with.
    """
    folder = os.path.join(repo_folder(asked), "blobs")
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if re.fullmatch(r"[0-9a-f]+\.[0-9a-f]{8}\.incomplete", name):
            os.unlink(os.path.join(folder, name))


def told(asked: Row, call: Any) -> Any:
    """The call's answer, or in the user's words why there is none."""
    errors = hub().errors
    what = f"revision {asked['revision']} of {asked['repo']}"
    site = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    given = bool(os.environ.get("HF_TOKEN"))
    token = "the token that the spec gives" if given else "no token (`secrets: {HF_TOKEN: ...}`)"
    try:
        return call()
    except errors.GatedRepoError as error:
        raise Refused(
            f"{asked['repo']} is gated, and {site} answers {code(error)} to {token}: ask for access there"
        ) from None
    except errors.RevisionNotFoundError:
        raise Refused(f"{site} has no {what}: correct `model.revision`") from None
    except errors.RepositoryNotFoundError as error:
        raise Refused(
            f"{site} answers {code(error)} for {asked['repo']} with {token}: is `model.id` right, and may"
            " it be read?"
        ) from None
    except errors.HfHubHTTPError as error:
        raise Refused(f"{site} answers {code(error)} for {what}: {first_line(error)}") from None
    except broken() as error:
        kept = f"; {here(asked)} files of it are here, and the next apply goes on with the rest"
        raise Refused(f"{site} broke off or was not reached for {what}: {first_line(error)}{kept}") from None


def check(asked: Row, manifest: Row) -> None:
    """Every file read once; one that is not what it must be goes, so that the next apply fetches it anew."""
    folder = snapshot(asked, manifest["commit"])
    rows = sorted(manifest["files"].items(), key=lambda row: -row[1]["size"])
    with ThreadPoolExecutor(READERS) as pool:
        wrong = [text for text in pool.map(lambda row: wrong_file(folder, *row), rows) if text]
    if wrong:
        raise Refused(
            f"{len(wrong)} files were damaged and are removed, so that the next apply fetches them:"
            f" {'; '.join(wrong[:3])}"
        )


def wrong_file(folder: str, name: str, wanted: Row) -> str:
    path = os.path.join(folder, name)
    size = os.path.getsize(path) if os.path.exists(path) else -1
    if size != wanted["size"]:
        what = f"{name} has {size} bytes, not {wanted['size']}" if size >= 0 else f"{name} is missing"
    elif "sha256" in wanted and digest(path, hashlib.sha256()) != wanted["sha256"]:
        what = f"{name} has another sha256 than {wanted['sha256'][:12]}..."
    elif "git" in wanted and digest(path, hashlib.sha1(b"blob %d\0" % size)) != wanted["git"]:
        what = f"{name} has another git id than {wanted['git'][:12]}..."
    else:
        return ""
    for doomed in (os.path.realpath(path), path):
        if os.path.lexists(doomed):
            os.unlink(doomed)
    return what


def digest(path: str, state: Any) -> str:
    with open(path, "rb") as handle:
        for chunk in iter(lambda: handle.read(CHUNK), b""):
            state.update(chunk)
    return str(state.hexdigest())


def is_there(asked: Row, commit: str, name: str, size: int) -> bool:
    path = os.path.join(snapshot(asked, commit), name)
    return os.path.exists(path) and os.path.getsize(path) == size


def snapshot(asked: Row, commit: str) -> str:
    return os.path.join(repo_folder(asked), "snapshots", commit)


def here(asked: Row) -> int:
    """Whole files: one that breaks off is begun anew, once huggingface_hub's own five tries have failed."""
    folder = os.path.join(repo_folder(asked), "snapshots")
    return sum(len(files) for _, _, files in os.walk(folder))


def repo_folder(asked: Row) -> str:
    return os.path.join(str(asked["cache"]), "models--" + asked["repo"].replace("/", "--"))


def stat_of(path: str) -> list[int]:
    info = os.stat(path)
    return [info.st_size, info.st_mtime_ns]


def some(names: Any) -> str:
    few = sorted(names)[:3]
    return ", ".join(few) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def hub() -> Any:
    """Only hosts have it: in the environment of their engines."""
    importlib.import_module("huggingface_hub.errors")
    return importlib.import_module("huggingface_hub")


def broken() -> tuple[type[BaseException], ...]:
    """What a connection that breaks raises, by the HTTP library that huggingface_hub uses: since 1.0 httpx,
    in 2.4 httpx2; that of before raises OSErrors."""
    known = (sys.modules.get(name) for name in ("httpx", "httpx2"))
    return (OSError, RuntimeError, *(module.HTTPError for module in known if module))


def code(error: Any) -> str:
    response = getattr(error, "response", None)
    return str(getattr(response, "status_code", "an error"))


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


if __name__ == "__main__":
    main(json.load(sys.stdin), sys.argv[1])
