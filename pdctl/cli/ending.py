"""What commands that change hosts begin and end with: a question, a proof, a judgement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from pdctl.apply.look import Look
    from pdctl.verify.proof import Proof


def confirm(question: str, yes: bool) -> None:
    """Raises ApplyError unless somebody, or `--yes`, agrees; KeyboardInterrupt for Ctrl-C."""
    import sys

    from pdctl.errors import ApplyError

    if yes:
        return
    if not sys.stdin.isatty():
        raise ApplyError("nobody can be asked: stdin is not a terminal", hint="add --yes")
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort as abort:  # what typer makes of Ctrl-C and of the end of the input
        sys.stderr.write("\n")  # the question's line has none yet
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        agreed = False
    if not agreed:
        raise ApplyError("not confirmed; nothing was changed")


@contextmanager
def completing(document: dict[str, Any], json: bool) -> Iterator[None]:
    """What was planned and done is told in one document even if the work in this block fails."""
    from pdctl.errors import PdctlError, UnfinishedError
    from pdctl.views.console import error_document, print_json

    try:
        yield
    except PdctlError as error:
        if json:
            did = {"did": error.did} if isinstance(error, UnfinishedError) else {}
            print_json(document | did | error_document(error))
        raise


def proved(seen: Look, console: Console) -> Proof:
    """Two requests through the proxy, shown in short."""
    from pdctl.hosts.timing import laps
    from pdctl.verify import prove
    from pdctl.views.proof import show_proof

    with laps("proof"):
        proof = prove(seen.topology, seen.folder, prompts=2, seed=0)
    show_proof(proof, console, brief=True)
    return proof


def not_looked_at(seen: Look) -> list[str]:
    """Hosts that did not answer, and that nobody has asked for."""
    from pdctl.plan.rollout import some

    if not seen.beyond:
        return []
    was = "was" if len(seen.beyond) == 1 else "were"
    return [f"{some(seen.beyond)} {was} not looked at, outside the targets"]


def told(proof: Proof | None) -> Any:
    """The proof as JSON."""
    from pdctl.verify.proof import proof_document

    return proof_document(proof) if proof else None


def judged(seen: Look, proof: Proof | None) -> None:
    """Raises what keeps the command from ending well."""
    from pdctl.apply.consent import refused_reboots
    from pdctl.errors import ErrorGroup, UnhealthyError

    if refused := refused_reboots(seen):
        raise ErrorGroup("some hosts were not rebooted", [*refused, *seen.concerning])
    if seen.concerning:
        raise ErrorGroup("some hosts were left out", seen.concerning, hint="run the same command again")
    if proof and not proof.ok:
        raise UnhealthyError("; ".join(proof.problems), where="proxy", hint="`pdctl logs INSTANCE` shows why")
