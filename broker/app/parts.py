"""The parts of the daemon that a program may replace: `warren serve` does not, the broker of `warren.testing` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..hosting.host import Service
from ..net.transport import Transport
from ..runtime.clock import LoopClock


@dataclass(frozen=True, slots=True)
class Parts:
    """The clock of the node, the transport of its connections, and services beside those of the entry points."""

    clock: type[LoopClock] = LoopClock
    transport: type[Transport] = Transport
    services: Mapping[str, Service] = field(default_factory=dict)
