"""Running hosts -> Proof: the cluster serves, the KV moved, the text is right."""

from pdctl.verify.proof import Exchange, Proof
from pdctl.verify.prove import prove

__all__ = ["Exchange", "Proof", "prove"]
