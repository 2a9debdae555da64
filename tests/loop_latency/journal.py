"""A journal whose buffer is measured, and a broker whose disk is slower than its clients, or takes nothing."""

from typing import ClassVar

from tests.support.clock import FakeClock
from warren.broker.core.definitions.importer import DefinitionsImport
from warren.broker.core.messages.message import Message
from warren.broker.core.queues.queue import Queue
from warren.broker.storage.journal import Journal

from .broker import StoredPeer


class MeasuredJournal(Journal):
    """A journal that notes the longest buffer."""

    longest_bytes = 0
    tickets: ClassVar[list[int]] = []  # of the batches of all messages

    def append(self, queues: list[int], messages: list[Message]) -> None:
        super().append(queues, messages)
        MeasuredJournal.tickets.append(self.ticket())
        MeasuredJournal.longest_bytes = max(MeasuredJournal.longest_bytes, len(self._buffer))


class DiskPeer(StoredPeer):
    """A broker whose disk does not keep up."""

    clock: FakeClock

    def later(self, ms: int) -> None:
        """Let time pass, during which the disk is no faster."""
        self._pass(ms)
        self.settle()

    def import_bindings(self, source: str, queues: list[Queue]) -> DefinitionsImport:
        """An import, not carried out, that binds queues to an exchange."""
        of_vhost = {"vhost": "/", "source": source, "destination_type": "queue", "routing_key": "", "arguments": {}}
        plan = DefinitionsImport(self.node, {"bindings": [of_vhost | {"destination": queue.name} for queue in queues]})
        list(plan.check())
        return plan
