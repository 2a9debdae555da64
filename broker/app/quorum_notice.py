"""The notice in the log that quorum queues are not replicated."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from ..core.metadata.queue_types import QUORUM
from ..core.queues.queue import Queue
from ..core.vhost.node_services import Replication
from ..core.vhost.observer import Observer

MEANS = "a quorum queue is a durable queue, and is lost with the only machine that has it"
REQUIRED = f"{MEANS}; storage.quorum_requires_replication refuses only new ones"

log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class QuorumNotice(Observer):
    """An observer that logs the first declaration of a quorum queue while the store is not replicated.

    Later ones are not logged: a client may declare 10,000 queues, and all are stored alike.
    """

    def __init__(self, replication: Replication) -> None:
        self._replication = replication
        self._logged = False

    def log_restored(self, queues: Iterable[Queue]) -> None:
        """Log the number of restored quorum queues. They stay, even if new ones are refused."""
        count = sum(queue.settings.type == QUORUM for queue in queues)
        status = self._replication.status()
        if not count or status.replicated:
            return
        write, means = (log.warning, REQUIRED) if self._replication.required else (log.info, MEANS)
        write("quorum_queues_not_replicated", queues=count, guarantee=status.guarantee, means=means)

    def queue_declared(self, queue: Queue) -> None:
        if self._logged or queue.settings.type != QUORUM:
            return
        status = self._replication.status()
        if not status.replicated:
            self._logged = True
            facts = {"queue": queue.name, "vhost": queue.vhost, "guarantee": status.guarantee}
            log.warning("quorum_queue_not_replicated", **facts, means=MEANS)
