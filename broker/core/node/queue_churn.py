"""A counter of queues that are created and deleted in a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..vhost.observer import Observer

if TYPE_CHECKING:
    from ..counters.statistics import Churn
    from ..queues.queue import Queue


class QueueChurn(Observer):
    """An observer that adds created and deleted queues to the churn of the node."""

    def __init__(self, churn: Churn) -> None:
        self._churn = churn

    def queue_declared(self, queue: Queue) -> None:
        self._churn.queue_created += 1

    def queue_deleted(self, queue: Queue) -> None:
        self._churn.queue_deleted += 1
