"""Every file of every example, as it would land on its host: reviewed as code, rewritten with `--accept`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pdctl.bench.script import bench_script
from pdctl.state import File, Resource, Unit, Venv
from pdctl.state.codec import resource_to_json
from tests.examples import EXAMPLES, desired, topology

GOLDEN = Path(__file__).parent / "golden"
# Digests of our own wheels change with every edit of their code; the golden files keep the shape.
DIGESTS = (
    (re.compile(r"(venvs/[a-z-]+-)[0-9a-f]{12}"), r"\1<digest>"),
    (re.compile(r"(PDCTL_REVISION=)[0-9a-f]{16}"), r"\1<revision>"),
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_rendered_files_are_as_reviewed(name: str, request: pytest.FixtureRequest) -> None:
    rendered = render(name)
    folder = GOLDEN / name
    if request.config.getoption("--accept"):
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in rendered.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    on_disk = {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}
    assert on_disk.keys() == rendered.keys()
    for path, text in rendered.items():
        assert on_disk[path] == text, f"{name}/{path} changed; `make golden` accepts it after a look"


def render(name: str) -> dict[str, str]:
    """Files by `host/path`, and what else the host holds as `host/resources.json`."""
    found: dict[str, str] = {}
    others: dict[str, list[object]] = {}
    for key, resource in sorted(desired(name).items()):
        if isinstance(resource, File) and resource.content is not None:
            found[key.host + resource.path] = stable(resource.content.decode())
        else:
            others.setdefault(key.host, []).append(described(resource))
    if script := bench_script(topology(name)):
        found["vllm-bench-serve.sh"] = stable(script.decode())
    for host, rows in others.items():
        found[f"{host}/resources.json"] = stable(json.dumps(rows, indent=1)) + "\n"
    return found


def described(resource: Resource) -> dict[str, object]:
    row = resource_to_json(resource)
    if isinstance(resource, Unit):
        row |= {"argv": list(resource.argv), "health_url": resource.health_url, "revision": "<revision>"}
    if isinstance(resource, Venv):
        row |= {
            "digest": "<digest>",
            "packages": [line.split()[0].split("+")[0] for line in resource.requirements],
        }
    return row


def stable(text: str) -> str:
    for pattern, replacement in DIGESTS:
        text = pattern.sub(replacement, text)
    return text
