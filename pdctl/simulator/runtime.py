"""What all parts of one simulated engine share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import zmq.asyncio

from .args import Arguments
from .faults import FaultSwitch
from .metrics import Metrics
from .pace import Pace
from .parameters import Parameters
from .transfer import Transfer


@dataclass(frozen=True)
class Runtime:
    """The configuration and the shared parts of one instance."""

    arguments: Arguments
    parameters: Parameters
    transfer: Transfer
    context: zmq.asyncio.Context
    pace: Pace
    metrics: Metrics
    faults: FaultSwitch
    wake: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # set when the engine may have work or room again
