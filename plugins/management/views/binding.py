"""The view of a binding."""

from urllib.parse import quote_plus

import msgspec

from warren.broker.amqp.table_json import json_of_table
from warren.broker.plugin import Binding, Queue, Table, VHost, stable_hash

EMPTY = "~"  # the key of a binding with neither routing key nor arguments


class BindingView(msgspec.Struct):
    """A binding."""

    source: str
    vhost: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: dict[str, object]
    properties_key: str


def binding_view(vhost: VHost, binding: Binding) -> BindingView:
    to, key, arguments = binding.destination, binding.routing_key, json_of_table(binding.arguments)
    return BindingView(binding.source, vhost.name, to.name, to.kind, key, arguments, properties_key(binding))


def implicit_binding(queue: Queue) -> Binding:
    """Return the binding of a queue to the default exchange."""
    return Binding("", queue, queue.name, Table.EMPTY)


def properties_key(binding: Binding) -> str:
    """Return the key of a binding between a source and a destination: routing key and a hash of the arguments."""
    key = quote_plus(binding.routing_key, safe="", errors="surrogateescape").replace("~", "%7E")
    if not len(binding.arguments):
        return key or EMPTY
    return f"{key}~{stable_hash(binding.arguments.key()):016x}"
