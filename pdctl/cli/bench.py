"""`pdctl bench`: a small, truthful load on the running cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdctl.cli.finish import Finish
from pdctl.cli.load import folder_of, load_topology
from pdctl.cli.options import CLUSTER, Json, Spec

if TYPE_CHECKING:
    from pdctl.bench.client import Progress, Target, Workload
    from pdctl.bench.counters import PromptCheck
    from pdctl.bench.findings import Finding
    from pdctl.bench.measure import MetricsSource
    from pdctl.bench.slo import Slo, Verdict
    from pdctl.bench.stats import Meta, Summary
    from pdctl.hosts.doors import Doors
    from pdctl.topology import Topology


# What is shown of a result file beside its counts; names of `vllm bench serve`.
LATENCIES = ("median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "median_itl_ms", "p99_itl_ms")


def register(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
    path: Spec = CLUSTER,
    quick: Annotated[bool, typer.Option("--quick", help="The short closed-loop load.")] = False,
    judge: Annotated[
        Path | None,
        typer.Option(help="Send nothing; judge the counts of a result file, ours or of `vllm bench serve`."),
    ] = None,
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the result file.")] = Path("results"),
    seed: Annotated[int | None, typer.Option(help="Seed of the prompts; default: the time.")] = None,
    tolerate: Annotated[int, typer.Option(min=0, help="How many requests may fail.")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")] = False,
    json: Json = False,
) -> None:
    """Measure TTFT, TPOT and ITL through the proxy."""
    if judge is not None:
        return judge_file(judge, tolerate, json)
    topology = load_topology(path)

    from pdctl.bench.fields import result_name
    from pdctl.bench.result import write_result
    from pdctl.errors import BenchError
    from pdctl.views.console import print_json

    if not quick:
        raise BenchError("no load was named", hint="run `pdctl bench --quick`, the only one so far")
    report = _measured(topology, folder_of(path), seed)
    result = out_dir / result_name(report.summary)
    write_result(result, report.record())
    if json:
        print_json(report.record())
    else:
        report.show()
        typer.echo(f"result: {result}")
    report.end(tolerate, strict)


@dataclass(frozen=True)
class Report:
    """What a run gave, judged."""

    summary: Summary
    prompt_check: PromptCheck | None
    verdict: Verdict | None
    notes: tuple[Finding, ...]

    def record(self) -> dict[str, Any]:
        from pdctl.bench.fields import result_fields

        return result_fields(self.summary, self.verdict, self.notes, self.prompt_check)

    def show(self) -> None:
        from pdctl.views.bench import show_bench
        from pdctl.views.console import out

        show_bench(self.summary, out(), self.verdict, self.notes, self.prompt_check)

    def end(self, tolerate: int, strict: bool) -> None:
        """End the command as the result deserves."""
        from pdctl.bench.result import require_success
        from pdctl.errors import BenchError

        if self.summary.interrupted == "interrupted":
            raise KeyboardInterrupt
        errors = [sample.error for sample in self.summary.samples]
        require_success(self.summary.num_prompts, self.summary.completed, errors, tolerate)
        if strict and (warnings := [note.text for note in self.notes if note.level == "warning"]):
            raise BenchError("; ".join(warnings))
        if self.verdict and not self.verdict.met:
            raise Finish(3)


def judge_file(path: Path, tolerate: int, json: bool) -> None:
    """Print how many requests of a result file completed; an error when too many failed."""
    from pdctl.bench.result import read_result, require_success
    from pdctl.views.console import print_json

    found = read_result(path)
    counts = {"num_prompts": found.num_prompts, "completed": found.completed, "failed": found.failed}
    latencies = {name: value for name in LATENCIES if (value := found.metric(name)) is not None}
    if json:
        print_json({"format": "pdctl-judgement/1", "file": str(path), **counts, **latencies})
    else:
        typer.echo(
            f"{path}: completed {found.completed} of {found.num_prompts} requests, {found.failed} failed"
        )
        for name, value in latencies.items():
            typer.echo(f"  {name:<15} {value:.1f}")
    require_success(found.num_prompts, found.completed, found.errors, tolerate, where=str(path))


def _measured(topology: Topology, folder: Path, seed: int | None) -> Report:
    from pdctl.bench.findings import findings
    from pdctl.bench.measure import measure
    from pdctl.bench.slo import judge
    from pdctl.bench.stats import summarise
    from pdctl.hosts.doors import Doors
    from pdctl.verify.health import health

    asked = topology.spec.bench.seed if seed is None else seed
    workload = _workload(topology, int(time.time()) if asked is None else asked)
    states = health(topology, folder, {})
    with Doors(topology, folder) as doors:
        target, client_path = _target(topology, doors)
        found = measure(target, workload, _sources(topology, doors), _progress())
    versions = {name: state.version for name, state in states.items()}
    simulated = any(state.simulated for state in states.values())
    meta = _meta(topology, workload, client_path, versions, simulated)
    load, slo = found.load, _slo(topology)
    summary = summarise(load.samples, load.duration_s, meta, interrupted=load.interrupted)
    return Report(
        summary=summary,
        prompt_check=found.prompt_check,
        verdict=judge(summary, slo) if slo else None,
        notes=findings(summary, found.prompt_check),
    )


def _workload(topology: Topology, seed: int) -> Workload:
    from pdctl.bench.client import Workload
    from pdctl.bench.presets import quick_load
    from pdctl.bench.prompts import Vocabulary
    from pdctl.verify.prove import TOKEN_IDS

    load = quick_load(topology.spec)
    return Workload(
        num_prompts=load.num_prompts,
        concurrency=load.max_concurrency,
        input_len=load.input_len,
        output_len=load.output_len,
        vocabulary=Vocabulary("tokens", TOKEN_IDS.start, TOKEN_IDS.stop),
        seed=seed,
        warmups=load.warmups,
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
