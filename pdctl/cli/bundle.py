"""`pdctl bundle`: collect what hosts need into one folder, for hosts without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdctl.cli.options import BundleDir, Json


def register(app: typer.Typer) -> None:
    app.command()(bundle)


def bundle(
    runtime: Annotated[
        list[str] | None,
        typer.Argument(help="Runtimes: proxy, simulator, engine-cpu. Default: all.", show_default=False),
    ] = None,
    out_dir: BundleDir = None,
    json: Json = False,
) -> None:
    """Collect wheels, packages and models on this machine; only what is missing is fetched."""
    from pdctl.bundle.collect import collect, default_folder
    from pdctl.desired.runtime import OWN_PARTS
    from pdctl.views.console import print_json

    where: Path = out_dir or default_folder()
    found = collect(runtime or sorted(OWN_PARTS), where, progress=lambda line: typer.echo(line, err=True))
    files = [item.file for item in (*found.wheels, *found.debs, *found.models)]
    size = sum(item.size for item in (*found.wheels, *found.debs, *found.models))
    if json:
        print_json({"folder": str(where), "bytes": size, "files": files})
    else:
        typer.echo(f"{len(files)} files, {size / 2**20:.0f} MiB in {where}")
