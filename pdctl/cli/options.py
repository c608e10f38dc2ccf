"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Spec = Annotated[Path, typer.Argument(help="The spec; default ./cluster.yaml.", show_default=False)]
SpecOrPlan = Annotated[
    Path,
    typer.Argument(
        help="The spec, default ./cluster.yaml; or a plan that `diff --out` wrote.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Timing = Annotated[
    bool, typer.Option("--timing", help="Print on stderr where the time went; with --json also a field.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AllowReboot = Annotated[
    bool,
    typer.Option(
        "--allow-reboot",
        help="Reboot hosts that need it: drained, one after the other, looked at before engines start again.",
    ),
]
BundleDir = Annotated[
    Path | None,
    typer.Option("--bundle", help="Folder of wheels, packages and models; default ~/.cache/pdctl/bundle."),
]
CLUSTER = Path("cluster.yaml")
