"""The services that a virtual host gets from its node: ports, shared state, limits and policies."""

from __future__ import annotations

from dataclasses import dataclass

from ..exchanges.exchange import Exchange
from ..exchanges.exchange_type import Registry
from ..jobs.scheduler import Scheduler
from ..messages.ports import Clock, Journal
from ..queues.ledger import Ledger
from ..queues.queue import Queue
from ..queues.queue_journal import QueueNumbers
from .observer import Observers
from .replication import Replication


class TopologyLimits:
    """The limits on the number of queues and exchanges."""

    def check_queue(self, vhost: str, queues: int, name: str) -> None:
        """Raise PreconditionFailed (406) if the virtual host, which has `queues`, or the node may not have one more."""
        raise NotImplementedError

    def check_exchange(self, vhost: str, name: str) -> None:
        """Raise PreconditionFailed (406) if the node may not have one more exchange."""
        raise NotImplementedError


class TopologyPolicies:
    """The policies that a virtual host applies to new queues and exchanges."""

    def check_queue_name(self, vhost: str, name: str) -> None:
        """Raise PreconditionFailed (406) if it cannot be determined whether operator policies apply to such a queue."""
        raise NotImplementedError

    def apply(self, target: Queue | Exchange) -> bool:
        """Apply the matching policies to the target. Return whether its policies have changed."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class NodeServices:
    """The parts of a node that all its virtual hosts share."""

    clock: Clock
    journal: Journal
    ledger: Ledger
    scheduler: Scheduler
    registry: Registry
    numbering: QueueNumbers
    observers: Observers
    limits: TopologyLimits
    policies: TopologyPolicies
    replication: Replication
