"""What a proof consists of, and how it is judged. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
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
    """What the decoders say came from prefillers, in tokens; None where this version has no counter."""

    expected: int  # at least
    moved: int | None
    source: str  # the counter or log line it was read from


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
        if self.transfer and self.transfer.moved is None:
            found.append(f"nothing says whether the KV moved ({self.transfer.source})")
        elif self.transfer and (self.transfer.moved or 0) < self.transfer.expected:
            found.append(
                f"the KV did not move: decoders took {self.transfer.moved} of at least"
                f" {self.transfer.expected} prompt tokens from prefillers ({self.transfer.source})"
                " and computed the rest themselves"
            )
        return tuple(found)

    @property
    def ok(self) -> bool:
        return not self.problems


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
