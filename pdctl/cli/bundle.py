"""`pdctl bundle`: collect what hosts need into one folder, for hosts without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli.options import BundleDir, Json

if TYPE_CHECKING:
    from pdctl.parts.lock import Runtime


def register(app: typer.Typer) -> None:
    app.command()(bundle)


def bundle(
    runtime: Annotated[
        list[str] | None,
        typer.Argument(help="Runtimes: proxy, simulator, engine-cpu. Default: all.", show_default=False),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            help="Only for hosts with this Python, e.g. 3.10. Default: every Python.", show_default=False
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Also what each file of this model must be, as `ID` or `ID@REVISION`.", show_default=False
        ),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(
            help="What this cluster installs, by its cluster.lock: also the wheels for GPUs, about 4 GiB.",
            show_default=False,
        ),
    ] = None,
    out_dir: BundleDir = None,
    json: Json = False,
) -> None:
    """Collect wheels, packages and models on this machine; only what is missing is fetched."""
    from pdctl.bundle.collect import collect, default_folder
    from pdctl.bundle.weights import add_model
    from pdctl.views.console import print_json

    where: Path = out_dir or default_folder()
    wanted = _of_cluster(spec, runtime, python) if spec else _runtimes(runtime, python)
    found = collect(wanted, where, progress=lambda line: typer.echo(line, err=True))
    items = [*found.wheels, *found.debs, *found.models, *(add_model(each, where) for each in model or ())]
    files, size = [item.file for item in items], sum(item.size for item in items)
    if json:
        print_json({"folder": str(where), "bytes": size, "files": files})
    else:
        typer.echo(f"{len(files)} files, {size / 2**20:.0f} MiB in {where}")


def _of_cluster(spec: Path, names: list[str] | None, python: str | None) -> list[Runtime]:
    """As its lock has them, or the shipped ones; without a lock nobody knows the wheels for GPUs."""
    from pdctl.apply.supply import runtime_of
    from pdctl.cli.load import judge_spec, tell_warnings
    from pdctl.desired import desire
    from pdctl.desired.runtime import CUDA_RUNTIME
    from pdctl.errors import BundleError
    from pdctl.parts.cluster_lock import lock_file
    from pdctl.state import Venv

    if names or python:
        raise BundleError("`--spec` says what is collected", hint="leave runtimes and `--python` out")
    judged = judge_spec(spec)
    tell_warnings(judged)
    topology = judged.sound()
    venvs = {each for each in desire(topology).values() if isinstance(each, Venv)}
    found = sorted({runtime_of(venv) for venv in venvs})
    if any(each.name == CUDA_RUNTIME for each in found) and not topology.lock:
        where = str(lock_file(spec))
        raise BundleError(
            "the wheels for GPUs are not known without a lock", where=where, hint="`pdctl lock`"
        )
    return found


def _runtimes(names: list[str] | None, python: str | None) -> list[Runtime]:
    """Each with every Python it is locked for, or with the one asked for."""
    from pdctl.desired.runtime import OWN_PARTS
    from pdctl.errors import BundleError
    from pdctl.parts.lock import Runtime, known_locks, locked_pythons

    asked = names or sorted(OWN_PARTS)
    found = [Runtime(name, has) for name in asked for has in locked_pythons(name) if python in (None, has)]
    missing = sorted(set(asked) - {runtime.name for runtime in found})
    if missing and (names or not found):
        where = f" for Python {python}" if python else ""
        hint = f"locks there are: {', '.join(known_locks())}"
        raise BundleError(f"there is no lock of `{missing[0]}`{where}", hint=hint)
    return found
