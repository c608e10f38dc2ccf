"""pdctl, a conventional playbook, our rendered project and pyinfra on the same virtual hosts -> their times.

Run as root: `make bench`. It makes a lab, times every kind of run in turn, and takes the lab down.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import validate
from benchmarks.figures import Sample, document, ratio_table, ratios, sample_table
from benchmarks.machine import machine, write
from benchmarks.peers import make_pyinfra
from benchmarks.repository import make_repository
from benchmarks.rows import BENCHMARKS, TARGETS, changed, preparations, unchanged, write_peers, write_specs
from benchmarks.stage import say, stage
from pdctl.errors import PdctlError

STARTS = 15  # of `pdctl validate` and of each of its peers


def main() -> int:
    options = _options()
    if os.geteuid() != 0:
        sys.exit("virtual hosts need root: run `make bench`, or this with sudo")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    subprocess.run([BENCHMARKS.parent / "tools/apt", "apt-utils", "gnupg"], check=True)
    with tempfile.TemporaryDirectory(prefix="pdctl-bench-", dir=options.dir) as folder:
        try:
            samples, idle = _measured(Path(folder), options)
        except PdctlError as error:
            sys.exit(f"error: {error}" + (f"\n  hint: {error.hint}" if error.hint else ""))
        except KeyboardInterrupt:
            say("interrupted; the lab is gone")
            return 130
    say("starting `pdctl validate` and its peer in turn")
    starts = validate.measure(STARTS)
    found = ratios(samples, TARGETS, idle)
    about = machine(options.hosts)
    result = document(samples, found, idle, about) | {"validate": validate.document(starts)}
    write(options.out, "speed", result)
    tables = (about["summary"], sample_table(samples, idle), ratio_table(found), validate.report(starts))
    print("\n\n".join(tables))
    failed = [s for s in samples if s.problem]
    for sample in failed:
        print(f"round {sample.round}, {sample.row}: {sample.problem}", file=sys.stderr)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind (default 3)")
    parser.add_argument("--hosts", type=int, default=8, help="virtual hosts (default 8)")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for all runs (default 1800)")
    parser.add_argument("--dir", type=Path, help="where to make the temporary folder of the lab")
    parser.add_argument("--out", type=Path, default=BENCHMARKS / "results", help="folder for the JSON")
    return parser.parse_args()


def _measured(folder: Path, options: argparse.Namespace) -> tuple[list[Sample], float]:
    """Samples of all rounds, and the hosts' idle CPU."""
    key = make_repository(folder / "repository")
    say("installing pyinfra")
    with stage(options.hosts, folder, options.limit) as on:
        make_pyinfra(on.place.pyinfra)
        on.lab.serve(folder / "repository")
        write_specs(on.place, on.lab.ssh_config)
        write_peers(on.place, key)
        for row in preparations(on.place):
            on.prepare(row)
        idle = on.idle()
        rounds = range(1, options.rounds + 1)
        samples = [on.sample(row, number) for number in rounds for row in unchanged(on.place)]
        samples += [on.sample(row, number) for number in rounds for row in changed(on.place, number)]
        return samples, idle


if __name__ == "__main__":
    sys.exit(main())
