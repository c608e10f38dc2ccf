"""What decoders say they took from prefillers between two moments, by the signal that their version has."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pdctl.bench.counters import totals
from pdctl.desired.engine import decode_leg
from pdctl.desired.layout import unit_name
from pdctl.hosts.doors import Doors
from pdctl.knowledge.signals import Counter, Lines, signals_of
from pdctl.topology.model import Role, Topology
from pdctl.verify import journal
from pdctl.verify.doors import ask_all
from pdctl.verify.proof import Transfer

PAUSE_S = 0.25
# `lengths` of the prompts that were asked -> what came over
Reading = Callable[[Sequence[int]], Transfer]


def watch(topology: Topology, doors: Doors) -> Reading | None:
    """Look now; the result looks again. None: nothing moves in this mode."""
    if topology.spec.serving.mode != "disaggregated":
        return None
    for signal in signals_of(topology.pins["vllm"], topology.spec.serving.connector):
        if isinstance(signal, Lines):
            return _watch_journals(topology, doors, signal)
        before = _count(topology, doors, signal)
        if before is not None:
            return _watch_counter(topology, doors, signal, before)
    raise AssertionError("every connector has lines")


def expected(topology: Topology, lengths: Sequence[int], unit: str = "tokens") -> int:
    """The least that must come over for prompts of these lengths."""
    if unit == "transfers":
        return len(lengths) * max(d.tensor_parallel for d in topology.of(Role.DECODER))
    return sum(lengths) - len(lengths) * _own_tokens(topology)


def _own_tokens(topology: Topology) -> int:
    """A decoder computes a prompt's last token itself, unless the proxy appended one behind it."""
    appended = topology.spec.serving.connector == "lmcache" and decode_leg(topology) == "append-first-token"
    return 0 if appended else 1


def _watch_counter(topology: Topology, doors: Doors, counter: Counter, before: float) -> Reading:
    def read(lengths: Sequence[int]) -> Transfer:
        after = _count(topology, doors, counter)
        moved = None if after is None else int(after - before)
        return Transfer(expected(topology, lengths), moved, counter.name)

    return read


def _watch_journals(topology: Topology, doors: Doors, lines: Lines) -> Reading:
    units = [(d.host, unit_name(topology.cluster, d.name)) for d in topology.of(Role.DECODER)]
    places = {(host, unit): journal.place(doors.session(host), unit) for host, unit in units}
    ranks = max(d.tensor_parallel for d in topology.of(Role.DECODER)) if lines.unit == "tokens" else 1

    def read(lengths: Sequence[int]) -> Transfer:
        least = expected(topology, lengths, lines.unit)
        deadline = time.monotonic() + lines.patience_s
        while True:
            text = "\n".join(
                journal.since(doors.session(host), unit, cursor) for (host, unit), cursor in places.items()
            )
            found = journal.counted(text, lines)
            moved = None if found is None else found // ranks
            if (moved or 0) >= least or time.monotonic() > deadline:
                return Transfer(least, moved, f"journal: {lines.text}", lines.unit)
            time.sleep(PAUSE_S)

    return read


def _count(topology: Topology, doors: Doors, counter: Counter) -> float | None:
    """Sum over decoders; None when one of them has no such counter."""
    texts = ask_all(doors, topology.of(Role.DECODER), lambda client: client.get("/metrics"))
    readings = [totals(text.decode(errors="replace")).get(counter.name) for text in texts.values()]
    return None if any(r is None for r in readings) else sum(r or 0.0 for r in readings)
