"""The replication of a node's store, which new quorum queues may require."""

from __future__ import annotations

from collections.abc import Callable

from ...amqp.field_table import Table
from ..messages.storage_status import IN_MEMORY, StorageStatus
from ..metadata.queue_types import QUORUM
from ..queues.arguments import QUEUE_TYPE, refused


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
