"""Lists of what is in a virtual host: queues, exchanges, bindings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..amqp.field_table import Table
from ..amqp.table_json import json_of_table
from ..core.definitions.exporter import arguments_with_type
from ..core.exchanges.exchange import Exchange
from ..core.messages.binding import Binding
from ..core.queues.consumers import Consumer
from ..core.queues.queue import Queue
from ..core.queues.queue_sizes import queue_sizes
from ..session.consumer import ChannelConsumer
from ..session.events import pid
from .answers import Rows
from .call import Call, Handler
from .columns import Columns, listed


def sole_consumer(queue: Queue) -> Consumer | None:
    """The one that has the queue for itself."""
    return next((one for one in queue.consumers.all() if one.exclusive), None)


def sole_tag(queue: Queue) -> str | None:
    consumer = sole_consumer(queue)
    return consumer.tag if consumer is not None else None


def sole_pid(queue: Queue) -> str | None:
    consumer = sole_consumer(queue)
    return pid(consumer.channel) if isinstance(consumer, ChannelConsumer) else None


# Columns about what of a queue is in memory.
IN_MEMORY = ("messages_ready_ram", "messages_unacknowledged_ram", "messages_ram", "message_bytes_ram", "memory")


def size_of(name: str, queue: Queue) -> int:
    return queue_sizes(queue)[name]


QUEUE: Columns[Queue] = {
    "name": lambda queue: queue.name,
    "durable": lambda queue: queue.durable,
    "auto_delete": lambda queue: queue.auto_delete,
    "arguments": arguments_with_type,
    "policy": lambda queue: queue.policy and queue.policy.name,
    "operator_policy": lambda queue: queue.operator_policy and queue.operator_policy.name,
    "effective_policy_definition": lambda queue: dict(queue.effective),
    "pid": lambda queue: f"<{queue.vhost}.{queue.name}>".replace(" ", "_"),
    "owner_pid": lambda queue: str(queue.owner) if queue.owner is not None else None,
    "exclusive": lambda queue: queue.owner is not None,
    "exclusive_consumer_pid": sole_pid,
    "exclusive_consumer_tag": sole_tag,
    "messages": lambda queue: queue.ready + queue.unacked,
    "messages_ready": lambda queue: queue.ready,
    "messages_unacknowledged": lambda queue: queue.unacked,
    "messages_persistent": lambda queue: queue.journal.count,
    "message_bytes": lambda queue: queue.ready_bytes + queue.unacked_bytes,
    "message_bytes_ready": lambda queue: queue.ready_bytes,
    "message_bytes_unacknowledged": lambda queue: queue.unacked_bytes,
    "message_bytes_persistent": lambda queue: queue.journal.body_bytes,
    "consumers": lambda queue: len(queue.consumers),
    **{name: partial(size_of, name) for name in IN_MEMORY},
    "state": lambda queue: "running",
    "type": lambda queue: queue.rules.type,
}


def untold(one: object) -> None:
    return None


# Columns of RabbitMQ that no queue here has a value for.
NO_VALUES = (
    *("head_message_timestamp", "disk_reads", "disk_writes", "leader", "members", "online"),
    *("consumer_utilisation", "consumer_capacity"),
)
UNTOLD: Columns[Queue] = dict.fromkeys(NO_VALUES, untold)


def list_queues(call: Call) -> Rows:
    """Of a virtual host that there is not, none. No queue of ours is ever offline."""
    vhost = call.node.vhosts.get(call.vhost_name)
    queues = list(vhost.queues.values()) if vhost is not None and not call.flag("offline") else []
    return listed({**QUEUE, **UNTOLD}, call.arguments, ("name", "messages"), queues)


EXCHANGE: Columns[Exchange] = {
    "name": lambda exchange: exchange.name,
    "type": lambda exchange: exchange.type_name,
    "durable": lambda exchange: exchange.durable,
    "auto_delete": lambda exchange: exchange.auto_delete,
    "internal": lambda exchange: exchange.internal,
    "arguments": lambda exchange: json_of_table(exchange.arguments),
    "policy": lambda exchange: exchange.policy and exchange.policy.name,
}


def list_exchanges(call: Call) -> Rows:
    """Of a virtual host that there is not, none."""
    vhost = call.node.vhosts.get(call.vhost_name)
    exchanges = list(vhost.exchanges.values()) if vhost is not None else []
    return listed(EXCHANGE, call.arguments, ("name", "type"), exchanges)


BINDING: Columns[Binding] = {
    "source_name": lambda binding: binding.source,
    "source_kind": lambda binding: "exchange",
    "destination_name": lambda binding: binding.destination.name,
    "destination_kind": lambda binding: binding.destination.kind,
    "routing_key": lambda binding: binding.routing_key,
    "arguments": lambda binding: json_of_table(binding.arguments),
}


def list_bindings(call: Call) -> Rows:
    """Those to the default exchange, which every queue has, among them. Of a virtual host that there is not, none."""
    vhost = call.node.vhosts.get(call.vhost_name)
    if vhost is None:
        return listed(BINDING, call.arguments, tuple(BINDING), [])
    bindings = [Binding("", queue, queue.name, Table.EMPTY) for queue in vhost.queues.values()]
    bindings += [binding for exchange in vhost.exchanges.values() for binding in exchange.outgoing.values()]
    return listed(BINDING, call.arguments, tuple(BINDING), bindings)


def list_unresponsive_queues(call: Call) -> Rows:
    """Queues answer in the same loop that asks them."""
    none: Iterator[Queue] = iter(())
    return listed({**QUEUE, **UNTOLD}, call.arguments, ("name",), none)


COMMANDS: dict[str, Handler] = {
    "list_queues": list_queues,
    "list_exchanges": list_exchanges,
    "list_bindings": list_bindings,
    "list_unresponsive_queues": list_unresponsive_queues,
}
