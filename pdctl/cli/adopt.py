"""`pdctl adopt`: a draft cluster.yaml from what runs on hosts; nothing is changed there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli.options import Json

if TYPE_CHECKING:
    from pdctl.adopt.draft import Draft
    from pdctl.adopt.targets import Target
    from pdctl.spec.model import Cluster

Text = str | None


def register(app: typer.Typer) -> None:
    app.command()(adopt)


def adopt(
    hosts: Annotated[
        list[str] | None, typer.Argument(help="Hosts: ADDRESS, USER@ADDRESS:PORT or NAME=ADDRESS.")
    ] = None,
    from_spec: Annotated[
        Path | None, typer.Option("--from", help="Look at the hosts of this spec instead.")
    ] = None,
    user: Annotated[Text, typer.Option(help="Login name; default: what ssh would use.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="SSH port.")] = None,
    key: Annotated[Text, typer.Option(help="Private key file.")] = None,
    jump: Annotated[Text, typer.Option(help="Jump host, as user@host:port.")] = None,
    ssh_config: Annotated[Text, typer.Option("--ssh-config", help="ssh_config file.")] = None,
    known_hosts: Annotated[Text, typer.Option("--known-hosts", help="known_hosts file.")] = None,
    local: Annotated[bool, typer.Option("--local", help="HOST is this very machine; no ssh.")] = False,
    sudo: Annotated[bool, typer.Option("--sudo/--no-sudo", help="Look as root.")] = True,
    cluster: Annotated[Text, typer.Option("--cluster", help="Name of the cluster in the draft.")] = None,
    model: Annotated[
        Text, typer.Option("--model", help="Only engines of this model, where several are served.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="File to write; `-` is stdout.")] = Path("cluster.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    json: Json = False,
) -> None:
    """Read a running hand-made deployment into a draft cluster.yaml."""
    from pdctl.adopt.save import refuse_existing, save
    from pdctl.adopt.write import draft_text
    from pdctl.errors import SpecError

    printed = str(out) == "-"
    if printed and json:
        raise SpecError("--json and `--out -` both want stdout", hint="name a file with --out")
    if not printed:
        refuse_existing(out, force)
    ssh = {"user": user, "port": port, "key": key, "jump": jump, "config": ssh_config}
    ssh |= {"known_hosts": known_hosts, "connection": "local" if local else None}
    given = {n: v for n, v in (ssh | {"become": None if sudo else False}).items() if v is not None}
    folder = Path.cwd() if printed else out.parent
    if from_spec is None:
        found = _targets(hosts or [], given, folder)
    else:
        spec = _spec(hosts, given, from_spec)
        found, cluster = _targets_of(spec, from_spec, folder), cluster or spec.cluster
    made = _draft(found, cluster, model)
    text = draft_text(made)
    if not printed:
        save(text, out, force)
    _tell(made, text, out, json)


def _draft(found: Mapping[str, Target], cluster: str | None, model: str | None) -> Draft:
    from pdctl.adopt.draft import draft
    from pdctl.adopt.look import look
    from pdctl.adopt.targets import named

    answers = look({name: target.reach for name, target in found.items()})
    return draft(named(found, answers), cluster=cluster, model=model)


def _tell(made: Draft, text: str, out: Path, json: bool) -> None:
    """The report on stderr, the result on stdout; what is not valid yet is an error after both."""
    from pdctl.adopt.report import report
    from pdctl.errors import SpecError
    from pdctl.views.adopt import show_report
    from pdctl.views.console import err, print_json

    printed = str(out) == "-"
    document = report(made, None if printed else str(out))
    show_report(document, err())
    if json:
        print_json(document)
    elif printed:
        typer.echo(text, nl=False)
    else:
        typer.echo(f"Wrote {out}. Read it, then run `pdctl validate {out}` and `pdctl diff {out}`.")
    if made.problems:
        missing = "; ".join(problem.message for problem in made.problems)
        raise SpecError(
            f"the draft is not valid yet: {missing}", where=str(out), hint="add what is missing by hand"
        )


def _targets(hosts: list[str], ssh: dict[str, Any], folder: Path) -> Mapping[str, Target]:
    from pdctl.adopt.targets import targets
    from pdctl.errors import SpecError

    if not hosts:
        raise SpecError("no host is given", hint="name hosts, or a spec with --from")
    return targets(hosts, ssh, folder)


def _targets_of(spec: Cluster, path: Path, folder: Path) -> Mapping[str, Target]:
    from pdctl.adopt.targets import targets_of
    from pdctl.cli.load import folder_of

    return targets_of(spec, folder_of(path), folder)


def _spec(hosts: list[str] | None, ssh: dict[str, Any], path: Path) -> Cluster:
    from pdctl.errors import SpecError
    from pdctl.spec.load import load

    if hosts or ssh:
        raise SpecError("--from takes hosts and ssh settings from its spec", hint="leave the others out")
    return load(path)
