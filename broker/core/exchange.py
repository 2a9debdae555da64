"""An exchange: its flags, its bindings, and the type that routes for it."""

from __future__ import annotations

from ..table import Table
from .binding import Binding, Destination
from .exchange_type import ExchangeType

ALTERNATE = ("alternate-exchange", "x-alternate-exchange")  # RabbitMQ's name, and LavinMQ's


class Exchange(Destination):
    """`outgoing` are the bindings of which it is the source, `incoming` those that lead to it, by `binding_key`."""

    __slots__ = (
        "vhost",
        "type",
        "type_name",
        "durable",
        "auto_delete",
        "internal",
        "arguments",
        "incoming",
        "outgoing",
        "published",
    )
    kind = "exchange"

    def __init__(
        self,
        vhost: str,
        name: str,
        type_: ExchangeType,
        type_name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
    ) -> None:
        super().__init__(name)
        self.vhost = vhost
        self.type = type_
        self.type_name = type_name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.incoming: dict[bytes, Binding] = {}
        self.outgoing: dict[bytes, Binding] = {}
        self.published = 0

    def __str__(self) -> str:
        return f"exchange '{self.name}' in vhost '{self.vhost}'"

    @property
    def alternate(self) -> str | None:
        """Where a message goes for which this exchange finds nothing (spec/core.md 5.6)."""
        for key in ALTERNATE:
            name = self.arguments.text(key)
            if name is not None:
                return name
        return None


def binding_key(source: str, destination: Destination, routing_key: str, arguments: Table) -> bytes:
    """The identity of a binding (spec/core.md 7): equal for two bindings that are the same."""
    names = [
        name.encode("utf-8", "surrogateescape") for name in (source, destination.kind, destination.name, routing_key)
    ]
    # Each with its length in front: a name may hold any octet, so none could part them.
    return b"".join([bytes((len(name),)) + name for name in names]) + arguments.key()
