"""Sends real requests through the proxy and looks at what the engines say about them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pdctl.bench.counters import totals
from pdctl.errors import UnhealthyError
from pdctl.hosts.doors import Doors
from pdctl.topology.model import Instance, Role, Topology
from pdctl.verify.http import Client
from pdctl.verify.proof import Exchange, Proof, Transfer
from pdctl.verify.ready import wait_ready

# Tokens that a decoder took from its connector (vLLM's metrics, prometheus exposition).
MOVED = "vllm:external_prefix_cache_hits_total"
# Prompt lengths in tokens: below a chunk, around one, several; the last is cut to the model's length.
LENGTHS = (5, 40, 130, 257, 511, 900)
OUTPUT_TOKENS = 16
# Token ids that every vocabulary has and no tokenizer gives a special meaning.
TOKEN_IDS = range(300, 1000)
# A decoder computes the last token of a prompt itself (LMCache), so that many may be missing per request.
OWN_TOKENS = 1


def prove(
    topology: Topology, folder: Path, *, prompts: int, seed: int, against: Topology | None = None
) -> Proof:
    """Ask `prompts` greedy completions through the proxy, and the same of a reference.

    The reference is the proxy of `against` (an undisaggregated cluster with the same engine), else a decoder
    asked directly: without a transfer it computes the whole prompt itself. Raises UnhealthyError when
    something does not answer, UnreachableError when a host does not.
    """
    with Doors(topology, folder) as doors, _reference(topology, doors, folder, against) as (name, reference):
        front = _front(topology, doors)
        wait_ready(front)
        versions = _versions(topology, doors)
        asked = _prompts(topology, prompts, seed)
        before = _moved(topology, doors)
        answers = [_complete(front, topology, prompt) for prompt in asked]
        transfer = _transfer(topology, before, _moved(topology, doors), asked)
        exchanges = tuple(
            Exchange(
                prompt_tokens=len(prompt),
                text=text,
                reference=_complete(reference, topology, prompt)[0] if reference else None,
                prefiller=headers.get("x-pdctl-prefiller", ""),
                decoder=headers.get("x-pdctl-decoder", ""),
            )
            for prompt, (text, headers) in zip(asked, answers, strict=True)
        )
    simulated = any("simulated" in version for version in versions.values())
    may_simulate = topology.spec.engine.kind == "simulator"
    return Proof(topology.spec.serving.mode, exchanges, transfer, name, versions, simulated, may_simulate)


@contextmanager
def _reference(
    topology: Topology, doors: Doors, folder: Path, against: Topology | None
) -> Iterator[tuple[str, Client | None]]:
    if against is not None:
        with Doors(against, folder) as others:
            yield f"cluster `{against.cluster}`", _front(against, others)
        return
    decoders = topology.of(Role.DECODER)
    if not decoders:
        yield "", None
        return
    yield f"{decoders[0].name} without a transfer", _client(doors, decoders[0])


def _front(topology: Topology, doors: Doors) -> Client:
    place = topology.proxy
    return Client("proxy", doors.tunnel(place.host, place.address, place.http))


def _client(doors: Doors, instance: Instance) -> Client:
    return Client(instance.name, doors.tunnel(instance.host, instance.address, instance.ports.http))


def _versions(topology: Topology, doors: Doors) -> dict[str, str]:
    found = {}
    for instance in topology.instances:
        answer = _client(doors, instance).get_json("/version")
        version = str(answer.get("version"))
        marked = answer.get("simulated") and "simulated" not in version
        found[instance.name] = f"{version} simulated" if marked else version
    return found


def _prompts(topology: Topology, count: int, seed: int) -> list[list[int]]:
    chooser = random.Random(seed)
    room = max(1, (topology.max_model_len or 4096) - OUTPUT_TOKENS - 1)
    lengths = [min(LENGTHS[i % len(LENGTHS)], room) for i in range(1, count + 1)]
    return [[chooser.choice(TOKEN_IDS) for _ in range(length)] for length in lengths]


def _complete(client: Client, topology: Topology, prompt: Sequence[int]) -> tuple[str, Any]:
    body = {
        "model": topology.served_name,
        "prompt": list(prompt),
        "max_tokens": OUTPUT_TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }
    answer, headers = client.post("/v1/completions", body)
    try:
        return str(answer["choices"][0]["text"]), headers
    except (KeyError, IndexError, TypeError):
        raise UnhealthyError(f"the answer holds no text: {str(answer)[:200]}", where=client.name) from None


def _moved(topology: Topology, doors: Doors) -> float | None:
    """Sum over decoders; None when one of them has no such counter."""
    readings = [
        totals(_client(doors, decoder).get("/metrics").decode(errors="replace")).get(MOVED)
        for decoder in topology.of(Role.DECODER)
    ]
    return None if any(r is None for r in readings) else sum(r or 0.0 for r in readings)


def _transfer(
    topology: Topology, before: float | None, after: float | None, asked: Sequence[Sequence[int]]
) -> Transfer | None:
    if topology.spec.serving.mode != "disaggregated":
        return None
    expected = sum(len(prompt) - OWN_TOKENS for prompt in asked)
    moved = None if before is None or after is None else int(after - before)
    return Transfer(expected, moved, MOVED if moved is not None else f"no counter {MOVED} in this vLLM")
