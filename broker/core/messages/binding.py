"""What a binding is, and what it can lead to."""

from ...amqp.field_table import Table


class Destination:
    """A queue or an exchange, as the end of a binding."""

    __slots__ = ("name",)
    kind = ""  # "queue" or "exchange"

    def __init__(self, name: str) -> None:
        self.name = name


class Binding:
    """One binding. Two are the same when source, destination, routing key and sorted arguments are."""

    __slots__ = ("source", "destination", "routing_key", "arguments")

    def __init__(self, source: str, destination: Destination, routing_key: str, arguments: Table) -> None:
        self.source = source
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments
