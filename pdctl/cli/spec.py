"""`pdctl init | validate | schema`: the spec, without any host."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pdctl.cli.alone import lock_alone, tell_alone
from pdctl.cli.finish import Finish
from pdctl.cli.load import judge_spec, judge_with_hosts, tell_warnings
from pdctl.cli.options import CLUSTER, Json, Spec
from pdctl.errors import SpecError
from pdctl.topology.figures import Figures, figures
from pdctl.topology.figures import lines as size_lines
from pdctl.topology.judge import Judgement
from pdctl.topology.kv import in_flight_tokens
from pdctl.topology.model import Instance, Topology


class Form(StrEnum):
    """What `validate` prints."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def register(app: typer.Typer) -> None:
    app.command()(init)
    app.command()(validate)
    app.command()(schema)


def init(path: Spec = CLUSTER, json: Json = False) -> None:
    """Write a commented starter cluster.yaml."""
    from pdctl.spec.starter import starter
    from pdctl.views.console import out, print_json

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starter())
    except FileExistsError:
        raise SpecError("the file is there already", where=str(path), hint="name another file") from None
    except OSError as error:
        raise SpecError(f"cannot be written: {error.strerror}", where=str(path)) from None
    if json:
        print_json({"written": str(path)})
    else:
        out().print(f"Wrote {path}. Edit it, then run `pdctl validate` and `pdctl diff`.", markup=False)


def validate(
    path: Spec = CLUSTER,
    strict: Annotated[bool, typer.Option("--strict", help="End with 2 when there are warnings.")] = False,
    form: Annotated[
        Form, typer.Option("--format", help="What to print: for people, or for machines.")
    ] = Form.TEXT,
    hosts: Annotated[
        bool, typer.Option("--hosts", help="Also look at the hosts; nothing is changed there.")
    ] = False,
    json: Json = False,
) -> None:
    """Check the spec without touching any host, or with a look at them."""
    form = Form.JSON if json else form
    judgement = _of_lock(path, form) or (judge_with_hosts(path) if hosts else judge_spec(path))
    if form is Form.TEXT and judgement.topology is not None:
        tell_warnings(judgement)
        typer.echo(_summary(str(path), judgement))
    elif form is not Form.TEXT:
        _print(judgement, form)
    if judgement.errors:
        if form is Form.TEXT:
            tell_warnings(judgement)
        raise judgement.error()
    if strict and judgement.warnings:
        count = len(judgement.warnings)
        sys.stderr.write(f"{count} warning{'s' if count > 1 else ''}, and --strict allows none\n")
        raise Finish(2)


def _of_lock(path: Path, form: Form) -> Judgement | None:
    """What is wrong with a lock that is named in place of a spec; one that is whole is told at once."""
    try:
        found = lock_alone(path)
    except SpecError as error:
        return Judgement(str(path), None, errors=(error,))
    if found is None:
        return None
    if form in (Form.TEXT, Form.JSON):
        tell_alone(path, found, form is Form.JSON)
        raise Finish(0)
    return Judgement(str(path), None)


def _print(judgement: Judgement, form: Form) -> None:
    from pdctl.views.console import error_document, print_json
    from pdctl.views.findings import findings_document, github_commands, sarif

    if form is Form.GITHUB:
        sys.stdout.write(github_commands(judgement))
    elif form is Form.SARIF:
        print_json(sarif(judgement))
    elif judgement.topology is None:
        print_json(error_document(judgement.error()) | findings_document(judgement))
    else:
        print_json(topology_document(judgement.topology) | findings_document(judgement))


def _summary(path: str, judgement: Judgement) -> str:
    topology = judgement.sound()
    document = topology_document(topology)
    hosts, instances = len(document["hosts"]), len(document["instances"])
    what = f"{instances} instance{'s'[: instances != 1]} on {hosts} host{'s'[: hosts != 1]}"
    lines = [f"{path} is valid: {what}, proxy at {document['proxy']['url']}"]
    for row in document["instances"]:
        gpus = f"  GPUs {','.join(map(str, row['gpus']))}" if row["gpus"] else ""
        lines.append(f"  {row['name']:<14} {row['host']}:{row['ports']['http']}{gpus}")
    lines += [f"  {line}" for line in size_lines(topology)]
    if kv := topology.kv:
        lines.append(
            f"  KV buffer per rank: {kv.buffer_bytes} bytes = {kv.slots} chunks,"
            f" {in_flight_tokens(kv)} prompt tokens in flight per decoder"
        )
    lines += [f"  suppressed: {found} ({reason})" for found, reason in judgement.suppressed]
    return "\n".join(lines)


def schema(json: Annotated[bool, typer.Option("--json", help="The schema is JSON anyway.")] = False) -> None:
    """Print the JSON Schema of cluster.yaml, for editors."""
    from pdctl.spec.schema import json_schema
    from pdctl.views.console import print_json

    print_json(json_schema())


def topology_document(topology: Topology) -> dict[str, Any]:
    """The resolved system as JSON: names, places, ports."""

    def instance(item: Instance) -> dict[str, Any]:
        row = asdict(item) | {"url": item.url}
        row["ports"]["engine"] = [item.ports.engine.start, item.ports.engine.stop - 1]
        return row

    kv, sizes = topology.kv, figures(topology)
    return {
        "format": "pdctl-topology/1",
        "cluster": topology.cluster,
        "hosts": [asdict(peer) for peer in topology.hosts.values()],
        "instances": [instance(item) for item in topology.instances],
        "proxy": asdict(topology.proxy) | {"url": topology.proxy.url},
        "pins": dict(topology.pins),
        "kv": None if kv is None else asdict(kv) | {"buffer_bytes": kv.buffer_bytes},
        "sizes": None if sizes is None else sizes_document(sizes),
    }


def sizes_document(sizes: Figures) -> dict[str, Any]:
    """What follows from the model, by role; the network's hosts with their share."""
    flows = [flow._asdict() | {"ratio": flow.ratio} for flow in sizes.flows]
    return asdict(sizes) | {"flows": flows}
