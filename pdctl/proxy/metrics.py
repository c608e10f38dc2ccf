"""Counters and histograms of the proxy -> Prometheus text."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]

# name -> (type, help); every family is shown even without samples, so a dashboard can be built on day one.
FAMILIES = {
    "pdctl_proxy_info": ("gauge", "What this proxy is, always 1"),
    "pdctl_proxy_requests_total": ("counter", "Finished requests by endpoint and outcome"),
    "pdctl_proxy_requests_in_flight": ("gauge", "Requests being served"),
    "pdctl_proxy_queue_length": ("gauge", "Requests waiting for slots, or for an instance to be undrained"),
    "pdctl_proxy_reloads_total": ("counter", "Times the configuration was read again: ok, refused"),
    "pdctl_proxy_background_tasks": ("gauge", "Drains and late notices being waited for"),
    "pdctl_proxy_retries_total": ("counter", "Second attempts on another instance, by the role that failed"),
    "pdctl_proxy_instance_up": ("gauge", "1 while the instance is in rotation"),
    "pdctl_proxy_instance_drained": ("gauge", "1 while an operator keeps new requests from it"),
    "pdctl_proxy_instance_in_flight": ("gauge", "Requests this instance is working on"),
    "pdctl_proxy_instance_held": ("gauge", "Requests whose KV it holds or sends, without a leg at it"),
    "pdctl_proxy_instance_failures_total": ("counter", "Failed requests of an instance"),
    "pdctl_proxy_decoder_slots": ("gauge", "KV buffer slots of a decoder"),
    "pdctl_proxy_decoder_slots_used": ("gauge", "Slots held by requests whose KV is not yet consumed"),
    "pdctl_proxy_decoder_restarts_total": ("counter", "Restarts of a decoder that were noticed"),
    "pdctl_proxy_stale_peers": (
        "gauge",
        "1 while a prefiller may hold a peer from before the decoder's restart",
    ),
    "pdctl_proxy_notifications_total": (
        "counter",
        "KV-ready notices: counted, surplus, unknown, undecodable",
    ),
    "pdctl_proxy_notification_timeouts_total": (
        "counter",
        "Requests whose KV-ready notices did not all come",
    ),
    "pdctl_proxy_notifications_expected": ("gauge", "Requests whose notices are being counted"),
    "pdctl_proxy_drains_total": ("counter", "Decodes sent only to free KV: disconnect, answered, failed"),
    "pdctl_proxy_drain_failures_total": (
        "counter",
        "Drains the decoder did not carry out; its KV may be leaked",
    ),
    "pdctl_proxy_prefill_seconds": ("histogram", "From sending the prefill to its answer"),
    "pdctl_proxy_notification_seconds": (
        "histogram",
        "From the prefill's answer to the last KV-ready notice",
    ),
    "pdctl_proxy_first_decode_byte_seconds": ("histogram", "From sending the decode to its first event"),
}
# 5 ms is a short prompt's prefill on a fast GPU, 120 s the default prefill limit.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Metrics:
    def __init__(self) -> None:
        self._counters: dict[tuple[str, Labels], float] = {}
        self._histograms: dict[str, Histogram] = {}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        key = (name, tuple(labels.items()))
        self._counters[key] = self._counters.get(key, 0) + amount

    def observe(self, name: str, value: float) -> None:
        self._histograms.setdefault(name, Histogram()).observe(value)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Observe how long the block took, unless it failed."""
        began = time.monotonic()
        yield
        self.observe(name, time.monotonic() - began)

    def value(self, name: str, **labels: str) -> float:
        return self._counters.get((name, tuple(labels.items())), 0)

    def render(self, gauges: Iterable[Sample] = ()) -> str:
        samples: dict[str, list[str]] = {name: [] for name in FAMILIES}
        for (name, labels), value in self._counters.items():
            samples[name].append(line(name, labels, value))
        for name, labels, value in gauges:
            samples[name].append(line(name, labels, value))
        for name, (kind, _) in FAMILIES.items():
            if kind == "histogram":
                samples[name].extend(self._histograms.get(name, Histogram()).lines(name))
        text: list[str] = []
        for name, (kind, about) in FAMILIES.items():
            text += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *samples[name]]
        return "\n".join(text) + "\n"


class Histogram:
    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(BUCKETS, value)] += 1
        self._sum += value

    def lines(self, name: str) -> list[str]:
        total, text = 0, []
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._counts, strict=True):
            total += count
            text.append(line(f"{name}_bucket", (("le", bound),), total))
        return [*text, line(f"{name}_sum", (), self._sum), line(f"{name}_count", (), total)]


def line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{escaped(text)}"' for key, text in labels)
    return f"{name}{{{inside}}} {value:g}" if inside else f"{name} {value:g}"


def escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
