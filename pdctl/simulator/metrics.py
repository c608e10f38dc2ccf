"""Counts and times -> /metrics, under the names that vLLM and LMCache use."""

from __future__ import annotations

import bisect
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from .metric_names import COUNTERS, FAMILIES, HISTOGRAMS, SINCE, Counter


class Metrics:
    """What one instance of a vLLM of `release` has counted so far; what it has no metric for is not kept."""

    def __init__(self, model: str, family: str, release: tuple[int, ...]) -> None:
        self._labels = {"engine": "0", "model_name": model}
        # A counter that never counted shows as 0, not as absent.
        self._counts = {
            name: dict.fromkeys(counter.values or ("",), 0.0)
            for name, counter in COUNTERS.items()
            if _shown(name, family, release)
        }
        self._histograms = {
            name: _Histogram(histogram.bounds)
            for name, histogram in HISTOGRAMS.items()
            if _shown(name, family, release)
        }
        self._gauges: dict[str, Callable[[], float]] = {}
        self._started = time.time()

    def count(self, name: str, amount: float = 1, value: str = "") -> None:
        """Add to a counter; `value` is the value of its own label, if it has one."""
        if name in self._counts or name not in COUNTERS:
            self._counts[name][value] += amount

    def observe(self, name: str, number: float, times: int = 1) -> None:
        """Add to a histogram."""
        if name in self._histograms or name not in HISTOGRAMS:
            self._histograms[name].add(number, times)

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Show what `read` says at the time of asking."""
        self._gauges[name] = read

    def exposition(self) -> str:
        """The text of /metrics."""
        lines: list[str] = []
        for name, rows in self._counts.items():
            lines += _head(f"{name}_total", "counter", COUNTERS[name].help)
            lines += [
                self._line(f"{name}_total", _own(COUNTERS[name], value), n) for value, n in rows.items()
            ]
        for name, read in self._gauges.items():
            lines += [*_head(name, "gauge", "Read when asked for."), self._line(name, {}, read())]
        for name, histogram in self._histograms.items():
            lines += _head(name, "histogram", HISTOGRAMS[name].help)
            lines += [self._line(f"{name}_bucket", {"le": bound}, n) for bound, n in histogram.buckets()]
            lines += [
                self._line(f"{name}_count", {}, histogram.count),
                self._line(f"{name}_sum", {}, histogram.sum),
            ]
        return "\n".join([*lines, *self._process(), ""])

    def _line(self, name: str, labels: Mapping[str, str], number: float) -> str:
        text = ",".join(f'{key}="{_escaped(value)}"' for key, value in {**self._labels, **labels}.items())
        return f"{name}{{{text}}} {float(number)}"

    def _process(self) -> list[str]:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return [
            *_head("process_start_time_seconds", "gauge", "Start time of the process since the epoch."),
            f"process_start_time_seconds {self._started:.2f}",
            *_head("process_resident_memory_bytes", "gauge", "Resident memory size in bytes."),
            f"process_resident_memory_bytes {float(pages * os.sysconf('SC_PAGE_SIZE'))}",
        ]


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._hits = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.count = 0

    def add(self, number: float, times: int) -> None:
        self._hits[bisect.bisect_left(self._bounds, number)] += times
        self.sum += number * times
        self.count += times

    def buckets(self) -> list[tuple[str, int]]:
        total, rows = 0, []
        for bound, hits in zip((*map(str, self._bounds), "+Inf"), self._hits, strict=True):
            total += hits
            rows.append((bound, total))
        return rows


def _shown(name: str, family: str, release: tuple[int, ...]) -> bool:
    of_connector = not name.startswith(FAMILIES) or bool(family and name.startswith(family))
    return of_connector and all(release >= first for start, first in SINCE.items() if name.startswith(start))


def _own(counter: Counter, value: str) -> dict[str, str]:
    return {counter.label: value} if counter.label else {}


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
