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


class Destinations:
    """Destinations, each with the number of its bindings: it stays until the last of them is removed."""

    __slots__ = ("_all", "_bindings")

    def __init__(self) -> None:
        self._bindings: dict[Destination, int] = {}
        self._all: list[Destination] | None = None

    def add(self, destination: Destination) -> None:
        """Count one more binding to the destination."""
        self._bindings[destination] = self._bindings.get(destination, 0) + 1
        self._all = None

    def remove(self, destination: Destination) -> None:
        """Count one binding less to the destination, which must have been added."""
        left = self._bindings[destination] - 1
        if left:
            self._bindings[destination] = left
        else:
            del self._bindings[destination]
            self._all = None

    def all(self) -> list[Destination]:
        """Return each destination once, in the order in which they were added. The list is shared: do not change it."""
        if self._all is None:
            self._all = list(self._bindings)
        return self._all

    def __contains__(self, destination: Destination) -> bool:
        return destination in self._bindings

    def __bool__(self) -> bool:
        return len(self._bindings) > 0
