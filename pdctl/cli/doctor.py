"""`pdctl doctor`: what keeps the hosts from running the spec, before anything is changed there."""

from __future__ import annotations

from typing import Annotated

import typer

from pdctl.cli.finish import Finish
from pdctl.cli.load import folder_of, judge_spec, tell_warnings
from pdctl.cli.options import CLUSTER, Json, Spec
from pdctl.errors import SpecError
from pdctl.topology.model import Topology

CODES = {"ok": 0, "error": 1, "warning": 2}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    path: Spec = CLUSTER,
    host: Annotated[
        list[str], typer.Option("--host", metavar="NAME", help="Only this host; repeatable.")
    ] = [],  # noqa: B006  typer copies it
    json: Json = False,
) -> None:
    """Check the hosts against the spec and change nothing: 0 all fine, 1 errors, 2 only warnings."""
    judgement = judge_spec(path)
    tell_warnings(judgement)
    topology = judgement.sound()
    _refuse_unknown(topology, host)

    from pdctl.cli.reading import inspected
    from pdctl.hosts.checkup import checkups
    from pdctl.verify.glance import glance
    from pdctl.views.console import out, print_json
    from pdctl.views.doctor import doctor_document, show_doctor, worst

    seen = glance(topology, folder_of(path), host, thorough=True)
    found = checkups(topology, seen, inspected(path), host)
    if json:
        print_json(doctor_document(topology.cluster, found))
    else:
        show_doctor(found, out())
    if code := CODES[worst(found).value]:
        raise Finish(code)


def _refuse_unknown(topology: Topology, hosts: list[str]) -> None:
    for name in hosts:
        if name not in topology.hosts:
            known = ", ".join(topology.hosts)
            raise SpecError(f"there is no host `{name}` in the spec", hint=f"there are: {known}")
