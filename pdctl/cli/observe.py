"""`pdctl status | logs | verify | ask`: look at a running cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from pdctl.cli.finish import Finish, timed
from pdctl.cli.load import folder_of, load_topology, warn
from pdctl.cli.options import CLUSTER, Json, Spec, Timing


def register(app: typer.Typer) -> None:
    app.command()(status)
    app.command()(logs)
    app.command()(verify)
    app.command()(ask)


def status(path: Spec = CLUSTER, json: Json = False) -> None:
    """Show instances, units, health, versions and whether anything drifted."""
    topology = load_topology(path)

    from pdctl.apply.look import look
    from pdctl.errors import ErrorGroup
    from pdctl.verify.health import health
    from pdctl.verify.status import status_document
    from pdctl.views.console import out, print_json
    from pdctl.views.status import show_status

    seen = look(topology, folder_of(path))
    warn(seen.warnings)
    document = status_document(
        topology, seen.seen.state, seen.plan, health(topology, folder_of(path), seen.plan.unreachable)
    )
    if json:
        print_json(document)
    else:
        show_status(document, out())
    if seen.failures:
        raise ErrorGroup("some hosts could not be looked at", seen.failures)
    if not document["healthy"]:
        raise Finish(1)


def logs(
    instance: Annotated[str, typer.Argument(help="An instance, e.g. decoder-0, or `proxy`.")],
    path: Spec = CLUSTER,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=100000, help="How many lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    json: Json = False,
) -> None:
    """Print the journal of one instance."""
    topology = load_topology(path)

    from pdctl.desired.layout import unit_name
    from pdctl.errors import SpecError
    from pdctl.hosts.doors import Doors
    from pdctl.hosts.logs import tail
    from pdctl.views.console import print_json

    if follow and json:
        raise SpecError("a journal that is followed has no end, so no JSON document", hint="leave one out")
    hosts = {i.name: i.host for i in topology.instances} | {"proxy": topology.proxy.host}
    if instance not in hosts:
        raise SpecError(f"there is no instance `{instance}`", hint=f"there are: {', '.join(sorted(hosts))}")
    with Doors(topology, folder_of(path)) as doors:
        unit = unit_name(topology.cluster, instance)
        pieces = tail(doors.session(hosts[instance]), unit, lines, follow=follow)
        if json:
            rows = "".join(pieces).splitlines()
            print_json({"instance": instance, "host": hosts[instance], "lines": rows})
            return
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()


def verify(
    path: Spec = CLUSTER,
    prompts: Annotated[int, typer.Option(min=1, max=200, help="How many prompts.")] = 6,
    against: Annotated[
        Path | None, typer.Option(help="Spec of an undisaggregated cluster whose answers must be equal.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the prompts; default: the time.")] = None,
    timing: Timing = False,
    json: Json = False,
) -> None:
    """Prove that the cluster serves, that KV moves, and that the text is right."""
    topology = load_topology(path)
    other = load_topology(against) if against else None

    from pdctl.errors import SpecError, UnhealthyError
    from pdctl.hosts.timing import laps
    from pdctl.verify import prove
    from pdctl.verify.proof import proof_document
    from pdctl.views.console import out, print_json
    from pdctl.views.proof import show_proof

    if other is not None and other.spec.serving.mode != "aggregated":
        raise SpecError(
            f"`{other.cluster}` is disaggregated too: being equal to it proves nothing",
            where=str(against),
            hint="name the spec of an aggregated cluster with the same model",
        )
    chosen = int(time.time()) if seed is None else seed
    with laps("proof"):
        proof = prove(topology, folder_of(path), prompts=prompts, seed=chosen, against=other)
    if json:
        print_json(timed(proof_document(proof) | {"seed": chosen}, timing))
    else:
        show_proof(proof, out())
    if not proof.ok:
        raise UnhealthyError("the cluster is not proven", hint="`pdctl logs INSTANCE` shows why")


def ask(
    text: Annotated[str, typer.Argument(help="The text to go on with.")],
    path: Spec = CLUSTER,
    max_tokens: Annotated[int, typer.Option(min=1, max=100000, help="Tokens of the answer.")] = 24,
    json: Json = False,
) -> None:
    """Send one prompt through the proxy and print the answer."""
    topology = load_topology(path)

    from pdctl.hosts.doors import Doors
    from pdctl.verify.http import Client
    from pdctl.views.console import print_json

    place = topology.proxy
    body = {"model": topology.served_name, "prompt": text, "max_tokens": max_tokens, "temperature": 0}
    with Doors(topology, folder_of(path)) as doors:
        front = Client("proxy", doors.tunnel(place.host, place.address, place.http))
        answer, headers = front.post("/v1/completions", body)
    route = [headers[name] for name in ("x-pdctl-prefiller", "x-pdctl-decoder") if name in headers]
    if json:
        print_json({"answer": answer, "route": route})
    else:
        way = f"  ({' -> '.join(route)})" if route else ""
        typer.echo(f"{text!r} -> {answer['choices'][0]['text']!r}{way}")
