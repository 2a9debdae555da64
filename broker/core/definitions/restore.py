"""The restoring of the stored definitions at the start: virtual hosts, users, parameters, and the durable topology."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...amqp.errors import AMQPError, NotFound, OperatorError
from ...amqp.field_table import Table
from ..exchanges.exchange import Exchange
from ..messages.binding import Destination
from ..metadata.records import (
    Definitions,
    StoredBinding,
    StoredExchange,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredQueue,
    StoredTopicPermission,
)
from ..metadata.unfinished_import import ADVICE, UNFINISHED_IMPORT
from ..node.node import Node
from ..queues.queue import Queue
from ..vhost.vhost import VHost


class Loss:
    """A stored definition that could not be restored. `is_missing` returns whether it is still missing."""

    __slots__ = ("is_missing", "text")

    def __init__(self, text: str, is_missing: Callable[[], bool]) -> None:
        self.text = text
        self.is_missing = is_missing


class Restored:
    """The result of restoring definitions.

    `queues` are all restored queues, still empty; `exchanges` those whose type stores messages. `lost` are definitions
    that could not be restored, and `orphans` the bindings among them. They stay in the metadata: a plugin that is
    missing now may be installed at the next start.
    """

    __slots__ = ("queues", "exchanges", "lost", "orphans")

    def __init__(self) -> None:
        self.queues: list[Queue] = []
        self.exchanges: list[Exchange] = []
        self.lost: list[Loss] = []
        self.orphans: list[StoredBinding] = []


def restore(node: Node, definitions: Definitions) -> Restored:
    """Create everything in `definitions` in an empty node whose plugins are registered.

    A definition that cannot be restored is added to `lost`, and the others are restored all the same. Emissions of
    exchange types are discarded, and there must be no observers yet: nothing has changed.
    """
    assert not node.observers, "observers would take restored objects for new ones"
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
    for parameter in definitions.parameters:  # before the exchanges and queues to which policies apply
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
    if node.parameters.has_global(UNFINISHED_IMPORT):
        text = f"the rest of an import of definitions, which a crash has interrupted: {ADVICE}"
        restored.lost.append(Loss(text, lambda: node.parameters.has_global(UNFINISHED_IMPORT)))
    node.numbering.next = definitions.next_queue
    node.not_restored = lambda: [loss.text for loss in restored.lost if loss.is_missing()]
    return restored


def _vhost(node: Node, name: str) -> VHost:
    """Return the virtual host. Raises NotFound."""
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
    """Return whether the virtual host exists and has no such exchange or queue."""
    there = node.vhosts.get(vhost)
    return there is not None and name not in (there.exchanges if kind == "exchange" else there.queues)


def _is_orphan(node: Node, stored: StoredBinding) -> bool:
    """Return whether an end of the binding is missing."""
    ends = ("exchange", stored.source), (stored.kind, stored.destination)
    return any(_lacks(node, stored.vhost, kind, name) for kind, name in ends)


def _lacks_parameter(node: Node, stored: StoredParameter | StoredGlobalParameter) -> bool:
    if isinstance(stored, StoredGlobalParameter):
        return not node.parameters.has_global(stored.name)
    found = node.parameters.find(stored.vhost, stored.component, stored.name)
    return stored.vhost in node.vhosts and found is None


def _lacks_permission(node: Node, stored: StoredPermission | StoredTopicPermission) -> bool:
    user = node.users.get(stored.user)
    if user is None or stored.vhost not in node.vhosts:
        return False
    if isinstance(stored, StoredPermission):
        return stored.vhost not in user.permissions
    return stored.exchange not in user.topic_permissions.get(stored.vhost, ())


def _restore_exchange(node: Node, stored: StoredExchange, restored: Restored) -> None:
    try:
        vhost = _vhost(node, stored.vhost)
        exchange = vhost.declare_exchange(
            stored.name,
            stored.type,
            durable=stored.durable,
            auto_delete=stored.auto_delete,
            internal=stored.internal,
            arguments=Table(stored.arguments),
            number=stored.number,
            user=stored.user,
        )
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
        queue = vhost.declare_queue(
            stored.name, durable=True, auto_delete=stored.auto_delete, arguments=arguments, number=stored.number
        )
    except AMQPError as error:
        text = f"queue '{stored.name}' in vhost '{stored.vhost}': {error.text}"
        restored.lost.append(Loss(text, lambda: _lacks(node, stored.vhost, "queue", stored.name)))
    else:
        restored.queues.append(queue)


def _restore_binding(vhost: VHost, stored: StoredBinding) -> None:
    """Restore a binding. Raises AMQPError."""
    destination: Destination = (
        vhost.queue(stored.destination) if stored.kind == "queue" else vhost.exchange(stored.destination)
    )
    vhost.restore_binding(stored.source, destination, stored.routing_key, Table(stored.arguments))
