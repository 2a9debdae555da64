"""Bindings and their destinations."""

from typing import ClassVar

from mypy_extensions import mypyc_attr

from ...amqp.field_table import Table


@mypyc_attr(allow_interpreted_subclasses=True)
class Destination:
    """A queue or an exchange, as the destination of a binding."""

    __slots__ = ("name",)
    kind: ClassVar[str] = ""  # "queue" or "exchange"

    def __init__(self, name: str) -> None:
        self.name = name


class Binding:
    """A binding. Bindings with the same source, destination, routing key and sorted arguments are the same binding."""

    __slots__ = ("source", "destination", "routing_key", "arguments")

    def __init__(self, source: str, destination: Destination, routing_key: str, arguments: Table) -> None:
        self.source = source
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments
