"""`pdctl init | validate | schema`: the spec, without any host."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from pdctl.cli.load import load_topology
from pdctl.cli.options import CLUSTER, Json, Spec
from pdctl.errors import SpecError
from pdctl.topology.kv import in_flight_tokens
from pdctl.topology.model import Instance, Topology


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


def validate(path: Spec = CLUSTER, json: Json = False) -> None:
    """Check the spec without touching any host."""
    topology = load_topology(path)
    document = topology_document(topology)
    if json:
        from pdctl.views.console import print_json

        print_json(document)
        return
    hosts, instances = len(document["hosts"]), len(document["instances"])
    typer.echo(
        f"{path} is valid: {instances} instances on {hosts} hosts, proxy at {document['proxy']['url']}"
    )
    for row in document["instances"]:
        gpus = f"  GPUs {','.join(map(str, row['gpus']))}" if row["gpus"] else ""
        typer.echo(f"  {row['name']:<14} {row['host']}:{row['ports']['http']}{gpus}")
    if kv := topology.kv:
        typer.echo(
            f"  KV buffer per rank: {kv.buffer_bytes} bytes = {kv.slots} chunks,"
            f" {in_flight_tokens(kv)} prompt tokens in flight per decoder"
        )


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

    kv = topology.kv
    return {
        "format": "pdctl-topology/1",
        "cluster": topology.cluster,
        "hosts": [asdict(peer) for peer in topology.hosts.values()],
        "instances": [instance(item) for item in topology.instances],
        "proxy": asdict(topology.proxy) | {"url": topology.proxy.url},
        "pins": dict(topology.pins),
        "kv": None if kv is None else asdict(kv) | {"buffer_bytes": kv.buffer_bytes},
    }
