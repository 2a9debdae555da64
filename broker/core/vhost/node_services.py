"""The services that a virtual host gets from its node: ports, shared state, limits and policies."""

from collections.abc import Callable
from dataclasses import dataclass

from ...amqp.field_table import Table
from ..exchanges.exchange import Exchange
from ..exchanges.exchange_type import Registry
from ..jobs.scheduler import Scheduler
from ..messages.clock import Clock
from ..messages.journal_port import IN_MEMORY, Journal, StorageStatus
from ..metadata.queue_types import QUORUM
from ..queues.arguments import QUEUE_TYPE, refused
from ..queues.ledger import Ledger
from ..queues.queue import Queue
from ..queues.queue_journal import QueueNumbers
from .observer import Observers


class Replication:
    """The replication of a node's store.

    status    returns the status of the store; the settings of a server may change while the node runs
    required  whether new quorum queues are refused while the store is not replicated
    """

    def __init__(self) -> None:
        self.status: Callable[[], StorageStatus] = lambda: IN_MEMORY
        self.required = False

    def check(self, arguments: Table, where: str) -> None:
        """Raise PreconditionFailed (406) for a new quorum queue that would not be replicated as required."""
        if not self.required or arguments.text(QUEUE_TYPE) != QUORUM:
            return
        status = self.status()
        if not status.replicated:
            reason = f"quorum queues require a replicated store, but a confirmed message is now on {status.guarantee}"
            raise refused(QUEUE_TYPE, where, f'"{reason}"')


class TopologyLimits:
    """The limits on the number of queues and exchanges."""

    def check_queue(self, vhost: str, queues: int, name: str) -> None:
        """Raise PreconditionFailed (406) if the virtual host, which has `queues`, or the node may not have one more."""

    def check_exchange(self, vhost: str, name: str) -> None:
        """Raise PreconditionFailed (406) if the node may not have one more exchange."""


class TopologyPolicies:
    """The policies that a virtual host applies to new queues and exchanges."""

    def check_queue_name(self, vhost: str, name: str) -> None:
        """Raise PreconditionFailed (406) if it cannot be determined whether operator policies apply to such a queue."""

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
