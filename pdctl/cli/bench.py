"""`pdctl bench`: a small, truthful load on the running cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdctl.cli.finish import Finish
from pdctl.cli.load import folder_of, load_topology
from pdctl.cli.options import CLUSTER, Json, Spec

if TYPE_CHECKING:
    from pdctl.bench.client import Progress, Target, Workload
    from pdctl.bench.measure import MetricsSource
    from pdctl.bench.slo import Slo
    from pdctl.bench.stats import Meta
    from pdctl.hosts.doors import Doors
    from pdctl.topology import Topology


def register(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
    path: Spec = CLUSTER,
    quick: Annotated[bool, typer.Option("--quick", help="The short closed-loop load.")] = False,
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the result file.")] = Path("results"),
    seed: Annotated[int | None, typer.Option(help="Seed of the prompts; default: the time.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")] = False,
    json: Json = False,
) -> None:
    """Measure TTFT, TPOT and ITL through the proxy."""
    topology = load_topology(path)

    from pdctl.bench.fields import result_fields, result_name
    from pdctl.bench.findings import findings
    from pdctl.bench.measure import measure
    from pdctl.bench.result import require_success, write_result
    from pdctl.bench.slo import judge
    from pdctl.bench.stats import summarise
    from pdctl.errors import BenchError
    from pdctl.hosts.doors import Doors
    from pdctl.verify.health import health
    from pdctl.views.bench import show_bench
    from pdctl.views.console import out, print_json

    if not quick:
        raise BenchError("only the quick load exists so far", hint="run `pdctl bench --quick`")
    asked = topology.spec.bench.seed if seed is None else seed
    workload = _workload(topology, int(time.time()) if asked is None else asked)
    states = health(topology, folder_of(path), {})
    with Doors(topology, folder_of(path)) as doors:
        target, client_path = _target(topology, doors)
        found = measure(target, workload, _sources(topology, doors), _progress())
    versions = {name: state.version for name, state in states.items()}
    simulated = any(state.simulated for state in states.values())
    meta = _meta(topology, workload, client_path, versions, simulated)
    summary = summarise(found.load.samples, found.load.duration_s, meta, interrupted=found.load.interrupted)
    slo = _slo(topology)
    verdict = judge(summary, slo) if slo else None
    notes = findings(summary, found.prompt_check)
    record = result_fields(summary, verdict, notes, found.prompt_check)
    write_result(out_dir / result_name(summary), record)
    if json:
        print_json(record)
    else:
        show_bench(summary, out(), verdict, notes, found.prompt_check)
        typer.echo(f"result: {out_dir / result_name(summary)}")
    if found.load.interrupted == "interrupted":
        raise KeyboardInterrupt
    require_success(summary.num_prompts, summary.completed, [s.error for s in summary.samples])
    if strict and (warnings := [n.text for n in notes if n.level == "warning"]):
        raise BenchError("; ".join(warnings))
    if verdict and not verdict.met:
        raise Finish(3)


def _workload(topology: Topology, seed: int) -> Workload:
    from pdctl.bench.client import Workload
    from pdctl.bench.presets import QUICK
    from pdctl.bench.prompts import Vocabulary
    from pdctl.verify.prove import TOKEN_IDS

    engine, asked = topology.spec.engine, topology.spec.bench
    preset = QUICK["simulator" if engine.kind == "simulator" else engine.device]
    concurrency = asked.concurrency or preset.max_concurrency
    return Workload(
        num_prompts=asked.num_prompts or preset.num_prompts,
        concurrency=concurrency,
        input_len=asked.input_len or preset.input_len,
        output_len=asked.output_len or preset.output_len,
        vocabulary=Vocabulary("tokens", TOKEN_IDS.start, TOKEN_IDS.stop),
        seed=seed,
        warmups=preset.warmups,
    )


def _target(topology: Topology, doors: Doors) -> tuple[Target, str]:
    from pdctl.bench.client import Target

    place = topology.proxy
    connect_to, client_path = doors.best(place.host, place.address, place.http)
    return Target(place.url, topology.served_name, connect_to=connect_to), client_path


def _sources(topology: Topology, doors: Doors) -> list[MetricsSource]:
    """Instances that compute prompts; a decoder would count each prompt again."""
    from pdctl.bench.measure import MetricsSource
    from pdctl.topology import Role

    return [
        MetricsSource(i.name, i.url, doors.best(i.host, i.address, i.ports.http)[0])
        for i in topology.instances
        if i.role is not Role.DECODER
    ]


def _meta(
    topology: Topology, workload: Workload, client_path: str, versions: dict[str, str], simulated: bool
) -> Meta:
    from pdctl.bench.stats import Meta
    from pdctl.desired.engine import decode_leg
    from pdctl.state.digest import object_digest

    spec = topology.spec
    lmcache = spec.serving.mode == "disaggregated" and spec.serving.connector == "lmcache"
    return Meta(
        date=time.strftime("%Y%m%d-%H%M%S"),
        model_id=topology.served_name,
        max_concurrency=workload.concurrency,
        input_len=workload.input_len,
        output_len=workload.output_len,
        seed=workload.seed,
        simulated=simulated,
        client_path=client_path,
        label=topology.cluster,
        first_token_from_prefiller=lmcache and decode_leg(topology) == "append-first-token",
        spec_digest=object_digest(spec.model_dump(mode="json")),
        versions=versions,
    )


def _slo(topology: Topology) -> Slo | None:
    from pdctl.bench.slo import Slo

    asked = topology.spec.slo
    if asked is None:
        return None
    targets = asked.model_dump()
    return Slo(**targets) if any(v for k, v in targets.items() if k != "attainment") else None


def _progress() -> Callable[[Progress], None]:
    """A line on a terminal's stderr; nothing elsewhere."""

    def show(progress: Progress) -> None:
        if sys.stderr.isatty():
            failed = f", {progress.failed} failed" if progress.failed else ""
            sys.stderr.write(f"\r{progress.completed} of {progress.total} requests{failed} ")
            if progress.completed + progress.failed >= progress.total:
                sys.stderr.write("\n")
            sys.stderr.flush()

    return show
