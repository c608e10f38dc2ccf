"""A number of hosts -> a spec of GPU servers, and what the probe would hear from each of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pdctl import __version__
from pdctl.desired import desire
from pdctl.spec.load import load
from pdctl.state import File, Key, Resource, State, Unit
from pdctl.state.codec import resource_to_json
from pdctl.topology import resolve

# Every host is an HGX with 8 GPUs: 4 engines of 2 GPUs. The pins make prefillers keep a decoder's addresses
# for ever, so that a change to decoders restarts everything: the longest plan there is.
SPEC = """\
cluster: chat
hosts:
{rows}
stack: article-2025
model: {{id: openai/gpt-oss-120b}}
serving:
  connector: lmcache
  prefillers: {{count: {prefillers}, tensor_parallel: 2}}
  decoders: {{count: {decoders}, tensor_parallel: 2, max_num_seqs: {max_num_seqs}}}
  rollout: {{max_unavailable: 5%}}
"""
HOST = "  - {{name: gpu{number:04}, address: 10.{high}.{low}.1, gpus: {{count: 8, model: H100-SXM-80GB}}}}"
FACTS = {
    "python": "3.10.12",
    "kernel": "5.15.0-164-generic",
    "arch": "x86_64",
    "os_id": "ubuntu",
    "os_version": "22.04",
    "systemd": "249",
    "boot_id": "0d9f7a52-0e4c-4f4e-9f0c-1c1f4d0c5a11",
    "time_s": 1.0,
    "root": True,
    "cpus": 192,
    "memory_bytes": 2 << 40,
    "disk_free": {"/": 1 << 40},
}


GENERATIONS = 10  # as many as are kept (`generations.keep`)


@dataclass(frozen=True)
class Case:
    """What is planned: an edit of the spec, or something that happened on the hosts."""

    name: str
    edit: Callable[[str], str] = str
    bare: bool = False  # nothing was ever applied
    drift: bool = False  # a file of the first host was edited there


def _fewer(text: str) -> str:
    """One decoder less."""
    before, _, rest = text.partition("decoders: {count: ")
    count, _, rest = rest.partition(",")
    return f"{before}decoders: {{count: {int(count) - 1},{rest}"


def _more(text: str) -> str:
    return text.replace("max_num_seqs: 64", "max_num_seqs: 128")


CASES = (
    Case("first apply", bare=True),
    Case("nothing to do"),
    Case("one file edited on one host", drift=True),
    Case("one decoder less", _fewer),
    Case("one setting of all decoders", _more),
    # The default rollout: with 2,000 decoders and as many prefillers 2,000 waves.
    Case("the same, one at a time", lambda text: _more(text).replace("5%", "1")),
)


def spec_text(hosts: int) -> str:
    rows = "\n".join(HOST.format(number=n, high=n >> 8, low=n & 255) for n in range(hosts))
    return SPEC.format(rows=rows, prefillers=2 * hosts, decoders=2 * hosts, max_num_seqs=64)


def write_case(case: Case, hosts: int, folder: Path) -> None:
    """`cluster.yaml` as it is to be planned, and `answers.jsonl`: a line for each host that was looked at."""
    spec, before = folder / "cluster.yaml", folder / "before.yaml"
    before.write_text(spec_text(hosts))
    spec.write_text(case.edit(spec_text(hosts)))
    applied, wanted = desire(resolve(load(before))), desire(resolve(load(spec)))
    present = {} if case.bare else {key: _observed(resource) for key, resource in applied.items()}
    first = Key("gpu0000", next(key.id for key in applied if key.id.endswith(".env")))
    with (folder / "answers.jsonl").open("w") as file:
        for host in resolve(load(spec)).hosts:
            seen = {key: r for key, r in present.items() if key.host == host}
            answer = _answer(host, seen, _contents(seen, wanted, applied), before.read_text())
            if case.drift and host == first.host:
                row = next(row for row in answer["resources"] if row.get("path") == first.id[5:])
                row["digest"] = "sha256:" + "0" * 64
            file.write(json.dumps([host, answer]) + "\n")


def _observed(resource: Resource) -> Resource:
    return replace(resource, invocation="1" * 32) if isinstance(resource, Unit) else resource


def _contents(seen: State, wanted: State, applied: State) -> dict[str, str]:
    """Hosts send the text of what is not as it is wanted."""
    found: dict[str, str] = {}
    for key in seen:
        want, have = wanted.get(key), applied[key]
        if isinstance(want, File) and isinstance(have, File) and have.content and want.digest != have.digest:
            found[have.path] = base64.b64encode(have.content).decode()
    return found


def _answer(host: str, seen: State, contents: dict[str, str], spec: str) -> dict[str, Any]:
    rows = [resource_to_json(resource) for _, resource in sorted(seen.items())]
    record = {"version": 1, "resources": [row | {"created": True} for row in rows], "pending": []}
    return {
        "resources": rows,
        "record": record if rows else None,
        "contents": contents,
        "facts": {"hostname": host, **FACTS},
        "kept": _kept(spec) if rows else None,
    }


def _kept(spec: str) -> dict[str, Any]:
    """Generations, and the spec of the newest."""
    made = {"state": "complete", "at": "2026-01-01T00:00:00+00:00", "by": "ops@deploy", "pdctl": __version__}
    rows = [made | {"number": n, "what": "12 updated", "age_s": 60.0} for n in range(1, GENERATIONS + 1)]
    return {"generations": rows, "spec_text": {"number": GENERATIONS, "text": spec}, "mark": "1"}


def lines(file: Path) -> Iterator[tuple[str, Any]]:
    """Host and answer, one after the other."""
    with file.open() as text:
        for line in text:
            host, answer = json.loads(line)
            yield host, answer
