"""What a proof consists of, and how it is judged. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Exchange:
    """One prompt, answered through the proxy and by the reference."""

    prompt_tokens: int
    text: str
    reference: str | None  # None: there was none to ask
    prefiller: str
    decoder: str

    @property
    def equal(self) -> bool | None:
        return None if self.reference is None else self.text == self.reference


@dataclass(frozen=True)
class Transfer:
    """What the decoders say came from prefillers; None where nothing says it."""

    expected: int  # at least
    moved: int | None
    source: str  # the counter or journal line it was read from
    unit: str = "tokens"  # or transfers

    @property
    def enough(self) -> bool:
        return self.moved is not None and self.moved >= self.expected


@dataclass(frozen=True)
class Proof:
    """Everything that was seen. `ok` only when nothing that was looked at is wrong."""

    mode: str
    exchanges: tuple[Exchange, ...]
    transfer: Transfer | None  # None: aggregated, nothing moves
    reference: str  # who computed the reference texts
    versions: Mapping[str, str]  # instance -> what /version says
    simulated: bool
    may_simulate: bool = False  # whether the spec asks for the simulator
    warned: Mapping[str, str] = field(default_factory=dict)  # instance -> what its UCX complained of

    @property
    def problems(self) -> tuple[str, ...]:
        found = [
            f"a prompt of {e.prompt_tokens} tokens ({e.prefiller} -> {e.decoder}) was answered differently"
            f" from {self.reference}"
            for e in self.exchanges
            if e.equal is False
        ]
        if self.simulated and not self.may_simulate:
            found.append("an engine calls itself simulated, but the spec asks for a real one")
        if self.transfer and not self.transfer.enough:
            found.append(_not_moved(self.transfer))
        found += [f"the UCX of {name} says: {line}" for name, line in self.warned.items()]
        return tuple(found)

    @property
    def ok(self) -> bool:
        return not self.problems


def _not_moved(transfer: Transfer) -> str:
    if transfer.moved is None:
        return f"nothing says whether the KV moved: the decoders do not tell ({transfer.source})"
    what = "prompt tokens" if transfer.unit == "tokens" else transfer.unit
    return (
        f"the KV did not move: decoders took {transfer.moved} of at least {transfer.expected} {what}"
        f" from prefillers ({transfer.source}) and computed the rest themselves"
    )


def proof_document(proof: Proof) -> dict[str, Any]:
    return {
        "format": "pdctl-proof/1",
        "ok": proof.ok,
        "problems": list(proof.problems),
        "mode": proof.mode,
        "simulated": proof.simulated,
        "reference": proof.reference,
        "transfer": asdict(proof.transfer) if proof.transfer else None,
        "versions": dict(proof.versions),
        "exchanges": [{**asdict(e), "equal": e.equal} for e in proof.exchanges],
    }
