"""The restoring of the stored definitions at the start: virtual hosts, users, parameters, and the durable topology."""

from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass(slots=True, eq=False)
class Loss:
    """A stored definition that could not be restored. `is_missing` returns whether it is still missing."""

    text: str
    is_missing: Callable[[], bool]


@dataclass(slots=True, eq=False)
class Restored:
    """The result of restoring definitions.

    `queues` are all restored queues, still empty; `exchanges` those whose type stores messages. `lost` are definitions
    that could not be restored, and `orphans` the bindings among them. They stay in the metadata: a plugin that is
    missing now may be installed at the next start.
    """

    queues: list[Queue] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    lost: list[Loss] = field(default_factory=list)
    orphans: list[StoredBinding] = field(default_factory=list)


def restore(node: Node, definitions: Definitions) -> Restored:
    """Create everything in `definitions` in an empty node whose plugins are registered.

    A definition that cannot be restored is added to `lost`, and the others are restored all the same. Emissions of
    exchange types are discarded, and there must be no observers yet: nothing has changed.
    """
    assert not node.observers, "observers would take restored objects for new ones"
    restored = Restored()
    users, parameters = node.users, node.parameters

    def attempt(what: str, is_missing: Callable[[], bool], step: Callable[[], object]) -> bool:
        """Do a step of restoring; if that fails, add the definition to `lost` and return False."""
        try:
            step()
        except (AMQPError, OperatorError) as error:
            restored.lost.append(Loss(f"{what}: {error.text}", is_missing))
            return False
        return True

    for vhost in definitions.vhosts:
        node.restore_vhost(vhost)
    for user in definitions.users:
        users.restore(user)
    for permission in definitions.permissions:
        what = f"permission of user '{permission.user}' in vhost '{permission.vhost}'"
        attempt(what, partial(_lacks_permission, node, permission), partial(users.restore_permission, permission))
    for topic in definitions.topic_permissions:
        what = f"topic permission on exchange '{topic.exchange}' of user '{topic.user}' in vhost '{topic.vhost}'"
        attempt(what, partial(_lacks_permission, node, topic), partial(users.restore_topic_permission, topic))
    for global_ in definitions.global_parameters:
        what = f"global parameter '{global_.name}'"
        attempt(what, partial(_lacks_parameter, node, global_), partial(parameters.restore_global, global_))
    for stored in definitions.parameters:  # before the exchanges and queues to which policies apply
        what = f"{stored.component} '{stored.name}' in vhost '{stored.vhost}'"
        attempt(what, partial(_lacks_parameter, node, stored), partial(parameters.restore, stored))
    for exchange in definitions.exchanges:
        what = f"exchange '{exchange.name}' in vhost '{exchange.vhost}'"
        missing = partial(_lacks, node, exchange.vhost, "exchange", exchange.name)
        attempt(what, missing, partial(_restore_exchange, node, exchange, restored))
    for queue in definitions.queues:
        what = f"queue '{queue.name}' in vhost '{queue.vhost}'"
        missing = partial(_lacks, node, queue.vhost, "queue", queue.name)
        attempt(what, missing, partial(_restore_queue, node, queue, restored))
    for binding in definitions.bindings:
        ends = f"exchange '{binding.source}' to {binding.kind} '{binding.destination}'"
        what = f"binding of {ends} in vhost '{binding.vhost}'"
        if not attempt(what, partial(_is_orphan, node, binding), partial(_restore_binding, node, binding)):
            restored.orphans.append(binding)
    if parameters.has_global(UNFINISHED_IMPORT):
        text = f"the rest of an import of definitions, which a crash has interrupted: {ADVICE}"
        restored.lost.append(Loss(text, partial(parameters.has_global, UNFINISHED_IMPORT)))
    node.numbering.next = definitions.next_queue
    node.not_restored = lambda: [loss.text for loss in restored.lost if loss.is_missing()]
    return restored


def _vhost(node: Node, name: str) -> VHost:
    """Return the virtual host. Raises NotFound."""
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise NotFound(f"no vhost '{name}'")
    return vhost


def _restore_exchange(node: Node, stored: StoredExchange, restored: Restored) -> None:
    exchange = _vhost(node, stored.vhost).declare_exchange(
        stored.name,
        stored.type,
        durable=stored.durable,
        auto_delete=stored.auto_delete,
        internal=stored.internal,
        arguments=Table(stored.arguments),
        number=stored.number,
        user=stored.user,
    )
    if exchange.number:
        restored.exchanges.append(exchange)


def _restore_queue(node: Node, stored: StoredQueue, restored: Restored) -> None:
    vhost, arguments = _vhost(node, stored.vhost), Table(stored.arguments)
    queue = vhost.declare_queue(
        stored.name, durable=True, auto_delete=stored.auto_delete, arguments=arguments, number=stored.number
    )
    restored.queues.append(queue)


def _restore_binding(node: Node, stored: StoredBinding) -> None:
    vhost, name = _vhost(node, stored.vhost), stored.destination
    destination: Destination = vhost.queue(name) if stored.kind == "queue" else vhost.exchange(name)
    vhost.restore_binding(stored.source, destination, stored.routing_key, Table(stored.arguments))


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
    parameter = node.parameters.find(stored.vhost, stored.component, stored.name)
    return stored.vhost in node.vhosts and parameter is None


def _lacks_permission(node: Node, stored: StoredPermission | StoredTopicPermission) -> bool:
    user = node.users.get(stored.user)
    if user is None or stored.vhost not in node.vhosts:
        return False
    if isinstance(stored, StoredPermission):
        return stored.vhost not in user.permissions
    return stored.exchange not in user.topic_permissions.get(stored.vhost, ())
