"""A model on the Hub -> its manifest: what each of its files must be, for hosts that check theirs."""

from __future__ import annotations

import fnmatch
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pdctl.bundle.manifest import MODELS, Item, has_manifest, item_of, load_bundle, save, write_whole
from pdctl.errors import BundleError
from pdctl.knowledge.hub import NOT_LOADED, NOT_LOADED_BESIDE_SAFETENSORS, TOKEN
from pdctl.knowledge.variables import HUB

MANIFESTS = f"{MODELS}/manifests"
MAIN = "main"
ANSWER_S = 30


def add_model(model: str, folder: Path) -> Item:
    """Put the manifest of `ID` or `ID@REVISION` into the bundle at `folder`; hosts need no network for it."""
    repo, _, revision = model.partition("@")
    found = _manifest(repo, revision or MAIN)
    path = folder / MANIFESTS / f"{repo.replace('/', '--')}@{quote(revision or MAIN, safe='')}.json"
    write_whole(path, (json.dumps(found, indent=1, sort_keys=True) + "\n").encode())
    item = item_of(folder, path, repo, found["commit"])
    if has_manifest(folder):
        bundle = load_bundle(folder)
        others = tuple(each for each in bundle.items if each.file != item.file)
        save(type(bundle)(folder, (*others, item), bundle.notes))
    return item


def manifests(folder: Path) -> Mapping[tuple[str, str], str]:
    """The text of each manifest in a bundle, by id and revision, and by id and commit."""
    found = {}
    for path in sorted((folder / MANIFESTS).glob("*.json")):
        text = path.read_text("utf-8")
        try:
            row = json.loads(text)
            names = [(str(row["repo"]), str(row[key])) for key in ("revision", "commit")]
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"unreadable: {error}", where=str(path), hint="remove the file") from error
        found.update(dict.fromkeys(names, text))
    return found


def _manifest(repo: str, revision: str) -> dict[str, Any]:
    answer = _ask(f"/api/models/{quote(repo)}/revision/{quote(revision, safe='')}?blobs=true", repo, revision)
    files = {}
    for row in answer.get("siblings") or ():
        lfs = row.get("lfs")
        sums = {"sha256": lfs["sha256"]} if lfs else {"git": row["blobId"]}
        files[row["rfilename"]] = {"size": row["size"], **sums}
    names = loaded(files)
    if not names:
        raise BundleError(f"revision {revision} of {repo} holds no files", where=_endpoint())
    kept = {name: files[name] for name in names}
    return {"repo": repo, "revision": revision, "commit": answer["sha"], "files": kept}


def loaded(names: Mapping[str, Any]) -> list[str]:
    """Those that engines load."""
    kept = [name for name in names if not _is_any(name, NOT_LOADED)]
    if any(name.endswith(".safetensors") for name in kept):
        kept = [name for name in kept if not _is_any(name, NOT_LOADED_BESIDE_SAFETENSORS)]
    return sorted(kept)


def _is_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", f"https://{HUB}").rstrip("/")


def _ask(path: str, repo: str, revision: str) -> dict[str, Any]:
    token = os.environ.get(TOKEN, "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    what, site = f"revision {revision} of {repo}", _endpoint()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(site + path, headers=headers), timeout=ANSWER_S
        ) as said:
            found: dict[str, Any] = json.load(said)
            return found
    except urllib.error.HTTPError as error:
        given = f"the token in {TOKEN}" if token else f"no token in {TOKEN}"
        hint = f"look at the id and the revision; gated models want a token in {TOKEN}"
        raise BundleError(f"{site} answers {error.code} for {what}, with {given}", hint=hint) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise BundleError(f"{site} was not reached for {what}: {reason}", hint="try again") from None
