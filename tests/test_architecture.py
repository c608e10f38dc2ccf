"""The tree holds its own rules: imports point down, files stay small, effects stay at the edge."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pdctl"

# Lower layers know nothing of higher ones. The longest matching prefix decides.
LAYER = {
    "pdctl": 0,
    "pdctl.errors": 0,
    "pdctl.assets": 0,
    "pdctl.state": 0,
    "pdctl.knowledge": 0,
    "pdctl.parts": 1,
    "pdctl.spec": 1,
    "pdctl.topology": 2,
    "pdctl.desired": 3,
    "pdctl.plan": 4,
    "pdctl.adopt": 4,
    "pdctl.apply.requests": 5,
    "pdctl.bench.stats": 4,
    "pdctl.bench.slo": 4,
    "pdctl.bench.prompts": 4,
    "pdctl.bench.presets": 4,
    "pdctl.bench.script": 4,
    "pdctl.bench.counters": 4,
    "pdctl.bench.fields": 4,
    "pdctl.bench.findings": 4,
    "pdctl.verify.proof": 4,
    "pdctl.adopt.look": 6,
    "pdctl.adopt.targets": 6,
    "pdctl.adopt.save": 6,
    "pdctl.hosts": 5,
    "pdctl.bundle": 5,
    "pdctl.lab": 5,
    "pdctl.bench": 6,
    "pdctl.verify": 6,
    "pdctl.apply": 6,
    "pdctl.views": 7,
    "pdctl.cli": 8,
    "pdctl.__main__": 9,
}
SELF_CONTAINED = ("proxy", "simulator", "contrib")
PURE_BELOW = 5
EFFECTS = {
    "ansible_runner", "asyncio", "aiohttp", "paramiko", "requests", "rich", "shutil", "socket", "subprocess",
    "tempfile", "threading", "time", "typer", "urllib", "http",
}  # fmt: skip
# A heavy or effectful library -> the only places that may import it.
ONLY_IN = {
    "ansible_runner": ("pdctl.hosts.ansible",),
    "paramiko": ("pdctl.hosts",),
    "rich": ("pdctl.views", "pdctl.cli"),
    "typer": ("pdctl.cli",),
    "jinja2": ("pdctl.desired",),
}
LIMIT = 300
UNWANTED = {"utils", "util", "helpers", "common", "base", "manager", "misc", "v2"}


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


def self_contained(name: str) -> bool:
    return name.split(".")[1:2] != [] and name.split(".")[1] in SELF_CONTAINED


def layer(name: str) -> int:
    best = max((p for p in LAYER if name == p or name.startswith(p + ".")), key=len)
    return LAYER[best]


def imports(path: Path, module: str) -> set[str]:
    """Absolute names of everything the file imports at run time, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(without_type_checking(ast.parse(path.read_text()))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {node.module} | {
                f"{node.module}.{a.name}" for a in node.names if is_module(f"{node.module}.{a.name}")
            }
    return found


def without_type_checking(tree: ast.Module) -> ast.Module:
    tree.body = [
        n for n in tree.body if not (isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    ]
    return tree


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or path.joinpath("__init__.py").is_file()


OWN = [(n, p) for n, p in modules() if not self_contained(n)]


@pytest.mark.parametrize(("name", "path"), OWN, ids=[n for n, _ in OWN])
def test_imports_point_down(name: str, path: Path) -> None:
    for target in imports(path, name):
        if not target.startswith("pdctl.") or target.split(".")[1] == name.split(".")[1:2]:
            continue
        same_package = name.split(".")[1:2] == target.split(".")[1:2]
        allowed = layer(target) < layer(name) or (same_package and layer(target) <= layer(name))
        assert allowed, f"{name} (layer {layer(name)}) imports {target} (layer {layer(target)})"


@pytest.mark.parametrize(("name", "path"), OWN, ids=[n for n, _ in OWN])
def test_the_core_is_pure_and_heavy_libraries_have_one_place(name: str, path: Path) -> None:
    tops = {target.split(".")[0] for target in imports(path, name)}
    if layer(name) < PURE_BELOW:
        assert not tops & EFFECTS
    for library, places in ONLY_IN.items():
        if library in tops:
            assert any(name == p or name.startswith(p + ".") for p in places), f"{name} imports {library}"


@pytest.mark.parametrize("part", SELF_CONTAINED)
def test_parts_that_run_on_hosts_import_nothing_of_pdctl(part: str) -> None:
    files = list((PACKAGE / part).rglob("*.py"))
    assert files
    for path in files:
        assert not {t for t in imports(path, part) if t.split(".")[0] == "pdctl"}, path


def test_a_planted_import_is_found(tmp_path: Path) -> None:
    planted = tmp_path / "x.py"
    planted.write_text("def f():\n    import paramiko\n    from pdctl.cli import main\n")
    assert {"paramiko", "pdctl.cli", "pdctl.cli.main"} <= imports(planted, "pdctl.plan.x")
    assert layer("pdctl.plan.x") < layer("pdctl.cli.main")


def test_files_stay_small_and_are_named_for_what_they_hold() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.yml", "*.j2"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    files = [ROOT / name for name in listed] or [p for _, p in modules()]
    exempt = {"golden", "cases", "locks"}
    measured = [p for p in files if p.is_file() and not exempt & set(p.relative_to(ROOT).parts)]
    # Tables of knowledge are as long as what is known; what reckons with them is code.
    measured = [p for p in measured if p.parent.name != "knowledge" or "\ndef " in p.read_text()]
    assert len(measured) > 30
    long = {str(p.relative_to(ROOT)): n for p in measured if (n := len(p.read_text().splitlines())) > LIMIT}
    assert not long
    assert not [p for p in measured if p.stem in UNWANTED]


def test_light_commands_do_not_load_heavy_libraries() -> None:
    code = (
        "import sys; import pdctl.cli.main; "
        "print(sorted({'rich', 'paramiko', 'jinja2', 'ansible_runner', 'aiohttp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
