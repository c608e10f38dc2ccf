"""A first install by pdctl, and by the same plain commands on all hosts at once -> what pdctl adds.

Run as root: `sudo .venv/bin/python benchmarks/install.py`. It makes a lab and takes it down.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks.figures import Sample, cpu, sample_table, spread
from benchmarks.machine import machine, write
from benchmarks.raw import install_script, undo_script
from benchmarks.repository import make_repository
from benchmarks.rows import BENCHMARKS, Row, inside_config, tool
from benchmarks.stage import Stage, say, stage
from pdctl.bundle.collect import default_folder
from pdctl.desired import desire
from pdctl.errors import PdctlError
from pdctl.lab import Bind
from pdctl.plan.belonging import Layer, layer_of
from pdctl.spec.load import load
from pdctl.topology import resolve

MOST_CPU_S = 5.0  # the target: what pdctl may add for each host, controller and host together
MOST_WALL = 1.15  # the other one, where the plain commands take a minute or more
MINUTE = 60.0
HEAD = "cluster: install\nssh: {{config: ssh_config}}\nhosts:\n{rows}\n"
SOURCE = "deb [trusted=yes] http://198.18.0.1:8080 stub main"
# Hosts of a lab have no kernel of their own to make an initramfs for.
PREPARED = (
    f"echo '{SOURCE}' > /etc/apt/sources.list.d/vendor.list; apt-get update -q;"
    " printf '#!/bin/sh\\n' > /usr/sbin/update-initramfs; chmod 755 /usr/sbin/update-initramfs"
)


@dataclass(frozen=True)
class Case:
    """One cluster, and the layers of it that are installed."""

    name: str
    spec: str
    host: str
    layers: tuple[Layer, ...]


CASES = (
    Case(
        "the article's packages",
        "stack: article-2025\nmodel: {{id: openai/gpt-oss-120b}}\n"
        "serving: {{prefillers: {{tensor_parallel: 2}}, decoders: {{tensor_parallel: 2, count: {count}}}}}\n",
        "{{name: {name}, address: {address}, os: debian-12, gpus: {{count: 8, model: H100-SXM-80GB}}}}",
        (Layer.BASE, Layer.PACKAGES),
    ),
    Case(
        "environments and services",
        "engine: simulator\nmodel: {{id: pdctl/tiny, served_name: tiny}}\n"
        "serving: {{prefillers: {{count: 1}}, decoders: {{count: {count}}}, lmcache: {{chunk_size: 32}}}}\n",
        "{{name: {name}, address: {address}}}",
        (),
    ),
)


def main() -> int:
    options = _options()
    if os.geteuid() != 0:
        sys.exit("virtual hosts need root: run this with sudo")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    subprocess.run([BENCHMARKS.parent / "tools/apt", "apt-utils", "gnupg"], check=True)
    subprocess.run([tool("pdctl"), "bundle", "simulator", "proxy"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="pdctl-bench-") as folder:
        try:
            samples, idle = _measured(Path(folder), options)
        except PdctlError as error:
            sys.exit(f"error: {error}" + (f"\n  hint: {error.hint}" if error.hint else ""))
        except KeyboardInterrupt:
            say("interrupted; the lab is gone")
            return 130
    about = machine(options.hosts)
    rows = [asdict(sample) for sample in samples]
    write(
        options.out, "install", {"format": "pdctl-install/1", "machine": about, "idle": idle, "samples": rows}
    )
    tables = (about["summary"], sample_table(samples, idle), added_table(samples, idle, options.hosts))
    print("\n\n".join(tables))
    return 1 if any(sample.problem for sample in samples) else 0


def added_table(samples: Sequence[Sample], idle: float, hosts: int) -> str:
    """A Markdown table: CPU seconds that pdctl adds for each host, and the ratio of wall times, by round."""
    lines = ["| what | CPU s added per host | at most | wall, times the plain | at most | |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | --- |")
    good = {(each.row, each.round): each for each in samples if not each.problem}
    for case in CASES:
        both = [
            (good[plain, n], good[ours, n])
            for plain, ours in [(f"plain commands, {case.name}", f"pdctl apply, {case.name}")]
            for n in sorted({each.round for each in samples})
            if (plain, n) in good and (ours, n) in good
        ]
        if both:
            added = [(cpu(ours, idle) - cpu(plain, idle)) / hosts for plain, ours in both]
            walls = [ours.wall_s / plain.wall_s for plain, ours in both]
            long = median(plain.wall_s for plain, _ in both) >= MINUTE
            met = median(added) <= MOST_CPU_S and (not long or median(walls) <= MOST_WALL)
            most = f"{MOST_WALL:g}" if long else ""
            verdict = "met" if met else "MISSED"
            lines.append(
                f"| {case.name} | {spread(added)} | {MOST_CPU_S:g} | {spread(walls)} | {most} | {verdict} |"
            )
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="first installs of each kind (default 3)")
    parser.add_argument("--hosts", type=int, default=4, help="virtual hosts (default 4)")
    parser.add_argument("--limit", type=float, default=1200, help="seconds for all runs (default 1200)")
    parser.add_argument("--out", type=Path, default=BENCHMARKS / "results", help="folder for the JSON")
    return parser.parse_args()


def _measured(folder: Path, options: argparse.Namespace) -> tuple[list[Sample], float]:
    make_repository(folder / "repository")
    binds = [Bind(str(default_folder()), "/opt/pdctl/bundle")]
    with stage(options.hosts, folder, options.limit, binds) as on:
        on.lab.serve(folder / "repository")
        on.place.ssh_config.write_text(inside_config(on.lab.ssh_config.read_text()))
        for host in on.place.hosts:
            done = on.lab.exec(host, ["sh", "-c", PREPARED])
            if done.returncode:
                sys.exit(f"{host} could not be prepared: {done.stderr.strip()}")
        idle = on.idle()
        found = [
            sample
            for case in CASES
            for runs in [_write(on, case)]
            for number in range(1, options.rounds + 1)
            for sample in _round(on, runs, number)
        ]
        return found, idle


@dataclass(frozen=True)
class Runs:
    """Of one case: both ways to install it, each followed by what takes it away again."""

    plain: Row
    undo: Row
    ours: Row
    destroy: Row


def _round(on: Stage, runs: Runs, number: int) -> Iterator[Sample]:
    yield on.sample(runs.plain, number)
    on.prepare(runs.undo)
    yield on.sample(runs.ours, number)
    on.prepare(runs.destroy)


def _write(on: Stage, case: Case) -> Runs:
    """The spec, and a script for each host."""
    place, name = on.place, case.name
    slug = name.replace(" ", "-").replace("'", "")
    rows = "\n".join(f"  - {case.host.format(name=n, address=a)}" for n, a in place.hosts.items())
    spec = place.folder / f"{slug}.yaml"
    spec.write_text(HEAD.format(rows=rows) + case.spec.format(count=len(place.hosts)))
    desired = desire(resolve(load(spec)))
    for host in place.hosts:
        state = [
            each
            for key, each in desired.items()
            if key.host == host and (not case.layers or layer_of(key) in case.layers)
        ]
        (place.folder / f"{slug}-{host}.sh").write_text(install_script(state))
        (place.folder / f"{slug}-{host}-undo.sh").write_text(undo_script(state))
    layers = [word for layer in case.layers for word in ("--layer", layer.value)]
    apply = (tool("pdctl"), "apply", str(spec), "--yes", "--no-verify", *layers)

    def on_all(end: str) -> tuple[str, ...]:
        each = (
            f'ssh -F {place.ssh_config} $host "sudo sh -s" < {place.folder}/{slug}-$host{end}.sh'
            f" > {place.folder}/$host.out 2>&1 || {{ tail -n 5 {place.folder}/$host.out; exit 1; }}"
        )
        script = f'jobs=; for host in {" ".join(place.hosts)}; do ({each}) & jobs="$jobs $!"; done; status=0;'
        return "sh", "-c", f"{script} for job in $jobs; do wait $job || status=1; done; exit $status"

    return Runs(
        Row(f"plain commands, {name}", on_all(""), place.folder, _any),
        Row(f"undo {name}", on_all("-undo"), place.folder, _any),
        Row(f"pdctl apply, {name}", apply, place.folder, _any),
        Row(f"destroy {name}", (tool("pdctl"), "destroy", str(spec), "--yes"), place.folder, _any),
    )


def _any(output: str) -> None:
    """The exit status is enough: both wait until what they start answers."""


if __name__ == "__main__":
    sys.exit(main())
