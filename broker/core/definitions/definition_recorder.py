"""The recorder of durable exchanges, queues and bindings, and of stored settings, in the journal's metadata.

A binding is durable if both its ends are. Predeclared exchanges are durable but not recorded: each virtual host creates
them itself.
"""

from ..exchanges.exchange import Exchange
from ..messages.binding import Binding
from ..metadata.records import (
    Change,
    Record,
    StoredBinding,
    StoredExchange,
    StoredGlobalParameter,
    StoredParameter,
    StoredQueue,
)
from ..node.node import Node
from ..queues.queue import Queue
from ..vhost.observer import Observer
from ..vhost.vhost import is_durable

# Kinds of records that count towards the objects that a full disk takes; only administrators create the others.
COUNTED = (StoredExchange, StoredQueue, StoredBinding, StoredParameter, StoredGlobalParameter)


class DefinitionRecorder(Observer):
    """An observer that writes every change of durable objects and of settings to the journal's metadata.

    `orphans` are stored bindings that could not be restored because one of their ends is missing. They are deleted when
    an exchange or queue with the name of either end is declared or deleted, so that a new one does not inherit them.
    """

    __slots__ = ("_node", "_orphans")

    def __init__(self, node: Node, orphans: list[StoredBinding]) -> None:
        self._node = node
        self._orphans: dict[tuple[str, str, str], list[StoredBinding]] = {}  # by vhost, kind and name of each end
        for orphan in orphans:
            for kind, name in (("exchange", orphan.source), (orphan.kind, orphan.destination)):
                self._orphans.setdefault((orphan.vhost, kind, name), []).append(orphan)

    def exchange_declared(self, exchange: Exchange) -> None:
        self._record(True, exchange)

    def exchange_deleted(self, exchange: Exchange) -> None:
        self._record(False, exchange)

    def queue_declared(self, queue: Queue) -> None:
        self._record(True, queue)

    def queue_deleted(self, queue: Queue) -> None:
        self._record(False, queue)

    def binding_added(self, vhost: str, binding: Binding) -> None:
        source = self._source(vhost, binding)
        if source is not None and source.durable and is_durable(binding.destination):
            self._change(True, stored_binding(vhost, binding))

    def binding_removed(self, vhost: str, binding: Binding) -> None:
        """Delete the record. A deleted source counts as durable, because its flag is no longer known."""
        source = self._source(vhost, binding)
        if (source is None or source.durable) and is_durable(binding.destination):
            self._change(False, stored_binding(vhost, binding))

    def configured(self, change: Change) -> None:
        self._node.journal.change(change)
        record = change.record
        if change.put and isinstance(record, COUNTED):
            self._node.alarms.count_stored("" if isinstance(record, StoredGlobalParameter) else record.vhost)

    def _source(self, vhost: str, binding: Binding) -> Exchange | None:
        there = self._node.vhosts.get(vhost)
        return there.exchanges.get(binding.source) if there is not None else None

    def _record(self, put: bool, end: Exchange | Queue) -> None:
        if end.durable:
            for orphan in self._orphans.pop((end.vhost, end.kind, end.name), ()):
                self._change(False, orphan)
            self._change(put, stored_exchange(end) if isinstance(end, Exchange) else stored_queue(end))

    def _change(self, put: bool, record: Record) -> None:
        self.configured(Change(put, record))


def stored_exchange(exchange: Exchange) -> StoredExchange:
    identity = exchange.vhost, exchange.name, exchange.type_name
    flags = exchange.durable, exchange.auto_delete, exchange.internal
    return StoredExchange(*identity, *flags, exchange.arguments.raw, exchange.number, exchange.declared_by)


def stored_queue(queue: Queue) -> StoredQueue:
    return StoredQueue(queue.vhost, queue.name, queue.number, queue.auto_delete, queue.arguments.raw)


def stored_binding(vhost: str, binding: Binding) -> StoredBinding:
    end = binding.destination
    return StoredBinding(vhost, binding.source, end.kind, end.name, binding.routing_key, binding.arguments.raw)
