"""A Hub as huggingface_hub talks to it, of one model: `python3 hub.py ADDRESS PORT` in its folder on a host.

Beside it: `files/`, `state.json` (token, gated, gone, cut: {file: bytes}, lost) read anew for each
request, and `asked`, to which each request is added as a line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "a" * 40
REPO = "acme/tiny"
LARGE = 1 << 16  # files from this size on are kept by their sha256, as the Hub's large files
HOME = Path(__file__).parent
MODEL = r"(\w+/[\w.-]+)"


def main(address: str, port: str) -> None:
    ThreadingHTTPServer((address, int(port)), Handler).serve_forever()


def state() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HOME / "state.json").read_text())
    return found


def etag(data: bytes) -> str:
    if len(data) >= LARGE:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def siblings() -> list[dict[str, Any]]:
    rows = []
    for path in sorted((HOME / "files").rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            row: dict[str, Any] = {"rfilename": str(path.relative_to(HOME / "files")), "size": len(data)}
            row["blobId"] = etag(data)
            if len(data) >= LARGE:
                row["lfs"] = {"sha256": etag(data), "oid": etag(data), "size": len(data), "pointerSize": 134}
            rows.append(row)
    return rows


def tree() -> list[dict[str, Any]]:
    """The same as huggingface_hub 2 asks for it."""
    return [{**row, "type": "file", "path": row["rfilename"], "oid": row["blobId"]} for row in siblings()]


def tensors(size: int, missing: int = 0, data: bytes = b"") -> bytes:
    """A file of one tensor of `size` bytes, of which the last `missing` have not come."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    whole = len(header).to_bytes(8, "little") + header + (data or bytes(size))
    return whole[: len(whole) - missing]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        now, path = state(), unquote(urlsplit(self.path).path)
        given = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        with (HOME / "asked").open("a") as log:
            row = {
                "method": self.command,
                "path": path,
                "range": self.headers.get("Range") or "",
                "token": given,
            }
            log.write(json.dumps(row) + "\n")
        if now.get("gone") or any(path.endswith("/" + name) for name in now.get("lost", ())):
            self.close_connection = True
            return
        info = re.fullmatch(f"/api/models/{MODEL}(?:/revision/(.+))?", path)
        listing = re.fullmatch(f"/api/models/{MODEL}/tree/(.+)", path)
        file = re.fullmatch(f"/{MODEL}/resolve/([^/]+)/(.+)", path)
        asked = info or listing or file
        if not asked or asked[1] != REPO:
            self.refuse(404, "RepoNotFound")
        elif now.get("token") and given != now["token"]:
            self.refuse(403 if given else 401, "GatedRepo" if now.get("gated") else "RepoNotFound")
        elif asked[2] not in (None, "main", COMMIT):
            self.refuse(404, "RevisionNotFound")
        elif file:
            self.file(HOME / "files" / file[3], now.get("cut", {}).get(file[3]))
        else:
            self.say_json({"id": REPO, "sha": COMMIT, "siblings": siblings()} if info else tree())

    def file(self, path: Path, cut: int | None) -> None:
        if not path.is_file():
            return self.refuse(404, "EntryNotFound")
        data, first = path.read_bytes(), 0
        headers = {"ETag": f'"{etag(data)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        headers["X-Linked-Size"] = str(len(data))
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if wanted:
            first = int(wanted[1])
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        rest = data[first:]
        if cut is not None and self.command == "GET":
            # From here on it cannot be had, until somebody writes another state.
            (HOME / "state.json").write_text(json.dumps({**state(), "cut": {}, "lost": [path.name]}))
            self.close_connection = True
            return self.say(200, rest, headers, max(0, cut - first))
        return self.say(206 if wanted else 200, rest, headers, len(rest))

    def say_json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.say(200, data, {"Content-Type": "application/json"}, len(data))

    def say(self, status: int, data: bytes, headers: dict[str, str], count: int) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data[:count])

    def refuse(self, status: int, code: str) -> None:
        self.say(status, b"{}", {"X-Error-Code": code, "Content-Type": "application/json"}, 2)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


if __name__ == "__main__":
    main(*sys.argv[1:])
