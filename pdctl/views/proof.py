"""A proof -> text for a person."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pdctl.verify.proof import Exchange, Proof, Transfer


def show_proof(proof: Proof, console: Console, *, brief: bool = False) -> None:
    """What was asked, whether the KV moved, whether the text is right; problems last."""
    if proof.simulated:
        console.print(Text("SIMULATED engine: this proves the plumbing, not the engine", style="bold yellow"))
    if not brief:
        for exchange in proof.exchanges:
            console.print(_exchange(exchange, proof))
    console.print(_served(proof))
    if proof.transfer:
        console.print(_transfer(proof.transfer))
    asked = [e for e in proof.exchanges if e.equal is not None]
    if asked:
        equal = sum(bool(e.equal) for e in asked)
        console.print(_line(equal == len(asked), f"Text equal to {proof.reference}: {equal} of {len(asked)}"))
    for problem in proof.problems:
        console.print(Text.assemble(("problem: ", "bold red"), problem))


def _served(proof: Proof) -> Text:
    engines = ", ".join(f"{name} {version}" for name, version in sorted(proof.versions.items()))
    return _line(True, f"Served: {len(proof.exchanges)} requests through the proxy ({engines})")


def _transfer(transfer: Transfer) -> Text:
    if transfer.moved is None:
        line = _line(False, "KV moved: not known")
    else:
        what = "prompt tokens" if transfer.unit == "tokens" else transfer.unit
        line = _line(
            transfer.enough, f"KV moved: {transfer.moved} {what}, at least {transfer.expected} expected"
        )
    return line.append(f"  [{transfer.source}]", style="dim")


def _exchange(exchange: Exchange, proof: Proof) -> Text:
    route = " -> ".join(name for name in (exchange.prefiller, exchange.decoder) if name)
    verdict = {None: "", True: "equal", False: "DIFFERENT"}[exchange.equal]
    line = Text(f"  {exchange.prompt_tokens:>5} tokens  {route}  {verdict}")
    return line.append(f"  {ascii(exchange.text)[:60]}", style="dim")


def _line(good: bool, text: str) -> Text:
    return Text.assemble(("✓ ", "green") if good else ("✗ ", "red"), text)
