"""What of the topology outlives the broker: durable exchanges and queues, and the bindings between them.

A binding is durable where both its ends are (spec/core.md 25). The predeclared exchanges are durable and are never
recorded: each vhost makes its own. The journal's metadata is told of every change by the Recorder, which observes the
node; `restore` makes all of it again at the start, before there are observers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...amqp.errors import AMQPError, NotFound, OperatorError
from ...amqp.field_table import Table
from ..exchanges.exchange import Exchange, binding_key
from ..messages.binding import Binding, Destination
from ..messages.ports import Observer
from ..metadata.records import (
    Change,
    Definitions,
    Record,
    StoredBinding,
    StoredExchange,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredQueue,
    StoredTopicPermission,
)
from ..node.node import Node
from ..queues.queue import Queue
from ..vhost.vhost import VHost, destination_type, incoming_of


class Loss:
    """Something stored that could not be made again. `is_missing` says whether it is still not there."""

    __slots__ = ("is_missing", "text")

    def __init__(self, text: str, is_missing: Callable[[], bool]) -> None:
        self.text = text
        self.is_missing = is_missing


class Restored:
    """`queues` are there again, still empty, and so are `exchanges`, those that store something. `lost` is what could
    not be made again.

    What is lost stays in the metadata: a plugin that is missing today may be there tomorrow. `orphans` are the bindings
    of it.
    """

    __slots__ = ("queues", "exchanges", "lost", "orphans")

    def __init__(self) -> None:
        self.queues: list[Queue] = []
        self.exchanges: list[Exchange] = []
        self.lost: list[Loss] = []
        self.orphans: list[StoredBinding] = []


class Recorder(Observer):
    """Tells the journal of what is to be there after a restart.

    `orphans` end with either of their ends, or with another of the same name: it must not inherit them.
    """

    __slots__ = ("_node", "_orphans")

    def __init__(self, node: Node, orphans: list[StoredBinding]) -> None:
        self._node = node
        self._orphans: dict[tuple[str, str, str], list[StoredBinding]] = {}  # by vhost, kind and name of each end
        for orphan in orphans:
            for kind, name in (("exchange", orphan.source), (orphan.kind, orphan.destination)):
                self._orphans.setdefault((orphan.vhost, kind, name), []).append(orphan)

    def exchange_declared(self, exchange: Exchange) -> None:
        if exchange.durable:
            self._drop_orphans(exchange.vhost, exchange)
            self._change(True, stored_exchange(exchange))

    def exchange_deleted(self, exchange: Exchange) -> None:
        if exchange.durable:
            self._drop_orphans(exchange.vhost, exchange)
            self._change(False, stored_exchange(exchange))

    def queue_declared(self, queue: Queue) -> None:
        if queue.durable:
            self._drop_orphans(queue.vhost, queue)
            self._change(True, stored_queue(queue))

    def queue_deleted(self, queue: Queue) -> None:
        if queue.durable:
            self._drop_orphans(queue.vhost, queue)
            self._change(False, stored_queue(queue))

    def bound(self, vhost: str, binding: Binding) -> None:
        source = self._source(vhost, binding)
        if source is not None and source.durable and is_durable(binding.destination):
            self._change(True, stored_binding(vhost, binding))

    def unbound(self, vhost: str, binding: Binding) -> None:
        """An exchange that is deleted has gone before its bindings: to be on the safe side it counts as durable."""
        source = self._source(vhost, binding)
        if (source is None or source.durable) and is_durable(binding.destination):
            self._change(False, stored_binding(vhost, binding))

    def configured(self, change: Change) -> None:
        self._node.journal.change(change)

    def _source(self, vhost: str, binding: Binding) -> Exchange | None:
        there = self._node.vhosts.get(vhost)
        return there.exchanges.get(binding.source) if there is not None else None

    def _drop_orphans(self, vhost: str, end: Destination) -> None:
        for orphan in self._orphans.pop((vhost, end.kind, end.name), ()):
            self._change(False, orphan)

    def _change(self, put: bool, record: Record) -> None:
        self._node.journal.change(Change(put, record))


def is_durable(destination: Destination) -> bool:
    assert isinstance(destination, (Queue, Exchange))
    return destination.durable


def stored_exchange(exchange: Exchange) -> StoredExchange:
    return StoredExchange(
        exchange.vhost,
        exchange.name,
        exchange.type_name,
        exchange.durable,
        exchange.auto_delete,
        exchange.internal,
        exchange.arguments.raw,
        exchange.number,
    )


def stored_queue(queue: Queue) -> StoredQueue:
    return StoredQueue(queue.vhost, queue.name, queue.number, queue.auto_delete, queue.arguments.raw)


def stored_binding(vhost: str, binding: Binding) -> StoredBinding:
    end = binding.destination
    return StoredBinding(vhost, binding.source, end.kind, end.name, binding.routing_key, binding.arguments.raw)


def restore(node: Node, definitions: Definitions) -> Restored:
    """Make again what the definitions say, in a node that has nothing yet and whose plugins are registered.

    One thing that cannot be made keeps back no other. Nobody is told, and exchange types give no notices: nothing has
    changed.
    """
    assert not node.observers, "they would take what is restored for new"
    restored = Restored()
    for vhost in definitions.vhosts:
        node.restore_vhost(vhost)
    for user in definitions.users:
        node.users.restore(user)
    for permission in definitions.permissions:
        _restore_permission(node, permission, restored)
    for topic_permission in definitions.topic_permissions:
        _restore_permission(node, topic_permission, restored)
    for global_parameter in definitions.global_parameters:
        _restore_parameter(node, global_parameter, restored)
    for parameter in definitions.parameters:  # before the exchanges and queues for which policies hold
        _restore_parameter(node, parameter, restored)
    for exchange in definitions.exchanges:
        _restore_exchange(node, exchange, restored)
    for queue in definitions.queues:
        _restore_queue(node, queue, restored)
    for binding in definitions.bindings:
        try:
            _restore_binding(_vhost(node, binding.vhost), binding)
        except AMQPError as error:
            ends = f"exchange '{binding.source}' to {binding.kind} '{binding.destination}'"
            text = f"binding of {ends} in vhost '{binding.vhost}': {error.text}"
            restored.lost.append(Loss(text, partial(_is_orphan, node, binding)))
            restored.orphans.append(binding)
    node.numbering.next = definitions.next_queue
    node.not_restored = lambda: [loss.text for loss in restored.lost if loss.is_missing()]
    return restored


def _vhost(node: Node, name: str) -> VHost:
    """Raises NotFound."""
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise NotFound(f"no vhost '{name}'")
    return vhost


def _restore_permission(node: Node, stored: StoredPermission | StoredTopicPermission, restored: Restored) -> None:
    what = "permission"
    try:
        if isinstance(stored, StoredPermission):
            node.users.restore_permission(stored)
        else:
            what = f"topic permission on exchange '{stored.exchange}'"
            node.users.restore_topic_permission(stored)
    except OperatorError as error:
        text = f"{what} of user '{stored.user}' in vhost '{stored.vhost}': {error.text}"
        restored.lost.append(Loss(text, partial(_lacks_permission, node, stored)))


def _restore_parameter(node: Node, stored: StoredParameter | StoredGlobalParameter, restored: Restored) -> None:
    try:
        if isinstance(stored, StoredParameter):
            node.parameters.restore(stored)
        else:
            node.parameters.restore_global(stored)
    except OperatorError as error:
        what = f"global parameter '{stored.name}'"
        if isinstance(stored, StoredParameter):
            what = f"{stored.component} '{stored.name}' in vhost '{stored.vhost}'"
        restored.lost.append(Loss(f"{what}: {error.text}", partial(_lacks_parameter, node, stored)))


def _lacks(node: Node, vhost: str, kind: str, name: str) -> bool:
    """Whether a virtual host that is there has no such exchange or queue."""
    there = node.vhosts.get(vhost)
    return there is not None and name not in (there.exchanges if kind == "exchange" else there.queues)


def _is_orphan(node: Node, stored: StoredBinding) -> bool:
    """Whether one of its ends is missing; it does not come back with them."""
    ends = ("exchange", stored.source), (stored.kind, stored.destination)
    return any(_lacks(node, stored.vhost, kind, name) for kind, name in ends)


def _lacks_parameter(node: Node, stored: StoredParameter | StoredGlobalParameter) -> bool:
    if isinstance(stored, StoredGlobalParameter):
        return stored.name not in node.parameters.globals()
    names = [each.name for each in node.parameters.all(stored.vhost, stored.component)]
    return stored.vhost in node.vhosts and stored.name not in names


def _lacks_permission(node: Node, stored: StoredPermission | StoredTopicPermission) -> bool:
    user = node.users.get(stored.user)
    if user is None or stored.vhost not in node.vhosts:
        return False
    if isinstance(stored, StoredPermission):
        return stored.vhost not in user.permissions
    return (stored.vhost, stored.exchange) not in user.topic_permissions


def _restore_exchange(node: Node, stored: StoredExchange, restored: Restored) -> None:
    try:
        vhost = _vhost(node, stored.vhost)
        flags = (stored.durable, stored.auto_delete, stored.internal)
        exchange = vhost.declare_exchange(stored.name, stored.type, *flags, Table(stored.arguments), stored.number)
    except AMQPError as error:
        text = f"exchange '{stored.name}' in vhost '{stored.vhost}': {error.text}"
        restored.lost.append(Loss(text, lambda: _lacks(node, stored.vhost, "exchange", stored.name)))
    else:
        if exchange.number:
            restored.exchanges.append(exchange)


def _restore_queue(node: Node, stored: StoredQueue, restored: Restored) -> None:
    try:
        vhost = _vhost(node, stored.vhost)
        arguments = Table(stored.arguments)
        queue = vhost.declare_queue(stored.name, True, False, stored.auto_delete, arguments, None, stored.number)
    except AMQPError as error:
        text = f"queue '{stored.name}' in vhost '{stored.vhost}': {error.text}"
        restored.lost.append(Loss(text, lambda: _lacks(node, stored.vhost, "queue", stored.name)))
    else:
        restored.queues.append(queue)


def _restore_binding(vhost: VHost, stored: StoredBinding) -> None:
    """As VHost.bind does, without notices. Raises AMQPError."""
    exchange = vhost.exchange(stored.source)
    destination: Destination = (
        vhost.queue(stored.destination) if stored.kind == "queue" else vhost.exchange(stored.destination)
    )
    arguments = Table(stored.arguments)
    key = binding_key(stored.source, destination, stored.routing_key, arguments)
    exchange.type.check(stored.routing_key, arguments, destination_type(destination))
    binding = Binding(stored.source, destination, stored.routing_key, arguments)
    exchange.outgoing[key] = binding
    incoming_of(destination)[key] = binding
    exchange.type.bound(binding)
