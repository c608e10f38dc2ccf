"""What a plan needs from the bundle, collected on the controller before any host is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pdctl.apply.look import Look
from pdctl.apply.requests import Supply
from pdctl.bundle.collect import Bundle, Given, Runtime, collect, default_folder
from pdctl.bundle.weights import manifests
from pdctl.desired.layout import VOCABULARY_IN_BUNDLE
from pdctl.desired.runtime import OWN_PARTS
from pdctl.knowledge.locks import INSTALLER
from pdctl.knowledge.systems import CPU_ENGINE_SYSTEM, SYSTEM_PYTHON
from pdctl.parts.lock import entry_of
from pdctl.parts.own import own_wheel
from pdctl.plan import Action
from pdctl.spec.places import beside
from pdctl.state import File, Package, Resource, Venv


def supply_for(seen: Look, folder: Path | None, progress: Callable[[str], None]) -> Supply:
    """Collect the runtimes, packages and models that the plan puts in place; nothing when it puts none.

    Raises BundleError naming the wheel, package or file that cannot be had.
    """
    changes = seen.plan.changes
    wanted = [seen.desired[c.key] for c in changes if c.action in (Action.CREATE, Action.UPDATE)]
    where = folder or default_folder()
    venvs = [r for r in wanted if isinstance(r, Venv)]
    runtimes = {runtime_of(venv) for venv in venvs if venv.wheels}
    given = _given(seen, wanted)
    ours = {each.file for each in given}
    bundled = any(
        (isinstance(r, Package) and r.deb) or (isinstance(r, File) and r.source and r.source not in ours)
        for r in wanted
    )
    if bundled and all(runtime.name != "engine-cpu" for runtime in runtimes):
        # The only runtime that brings packages and a model.
        runtimes.add(Runtime("engine-cpu", SYSTEM_PYTHON[CPU_ENGINE_SYSTEM]))
    if not runtimes and not venvs and not given:
        return Supply({}, {}, {}, str(where), manifests=manifests(where))
    return as_supply(collect(runtimes, where, progress=progress, given=given), where)


def as_supply(bundle: Bundle, where: Path) -> Supply:
    return Supply(
        wheels={f"sha256:{w.sha256}": w.file for w in bundle.wheels},
        debs={d.name: d.file for d in bundle.debs},
        sizes={item.file: item.size for item in (*bundle.wheels, *bundle.debs, *bundle.models)},
        folder=str(where.absolute()),
        manifests=manifests(where),
        installer=next((w.file for w in bundle.wheels if w.name == INSTALLER), ""),
    )


def runtime_of(venv: Venv) -> Runtime:
    """`/opt/pdctl/venvs/engine-cpu-0123456789ab` -> `engine-cpu`, with its Python and its wheels but ours."""
    name = venv.path.rsplit("/", 1)[1].rsplit("-", 1)[0]
    ours = {own_wheel(part).name for part in OWN_PARTS.get(name, ())}
    entries = [entry for line in venv.requirements if (entry := entry_of(line)) and entry.name not in ours]
    return Runtime(name, venv.python, tuple(entries))


def _given(seen: Look, wanted: Iterable[Resource]) -> list[Given]:
    """Files of the user's own, from the folders that the spec names."""
    folder = seen.topology.spec.model.vocabulary
    if folder is None:
        return []
    files = {r.source: r for r in wanted if isinstance(r, File) and r.source}
    place = beside(seen.folder, folder)
    return [
        Given(source, place / Path(source).name, file.digest.removeprefix("sha256:"))
        for source, file in sorted(files.items())
        if source.startswith(f"{VOCABULARY_IN_BUNDLE}/")
    ]
