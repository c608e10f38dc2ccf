"""What goes wrong in a simulated engine: at start, in one request, in one KV transfer, or for good."""

from __future__ import annotations


class StartError(Exception):
    """A real engine would not come up with this configuration either; the process ends with exit code 1."""


class Refused(Exception):  # noqa: N818 - an answer to a client, not a fault of ours
    """A request that is answered with an error, in vLLM's JSON shape."""

    def __init__(self, message: str, status: int = 400, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind


class KVError(Exception):
    """KV could not be sent or read."""


class EngineDeadError(Exception):
    """What kills a real engine's worker; the process ends with exit code 1."""
