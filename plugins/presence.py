"""The exchange type x-presence: tells the queues that listen to it when other bindings appear and disappear.

A binding with the empty key listens. Any other key is somebody's presence: when such a binding appears or disappears,
each listener gets a message with an empty body and these headers:

    action    bind, or unbind
    exchange  the name of this exchange
    queue     the name of what was bound: a queue, or an exchange
    key       the binding key

A new listener gets a `bind` for each presence that there is, unless it is bound with x-presence-exchange-summary false
or 0. What clients publish here goes nowhere, as it could pass for a notice. With the argument x-presence-relay true of
the exchange each listener gets it wrapped up, with the body as it was and these headers, which no client has written:

    action      message
    exchange    the name of this exchange
    key         the routing key
    properties  the properties, headers among them, as a table
"""

from collections.abc import Iterable

from broker.plugin import (
    FLOATS,
    INTEGERS,
    TAKEN,
    Address,
    Binding,
    Destination,
    Destinations,
    ExchangeHost,
    ExchangeType,
    Message,
    Notice,
    PreconditionFailed,
    Properties,
    Receipt,
    Sink,
    Table,
    Value,
    described,
    framed,
    type_name,
)

SUMMARY = "x-presence-exchange-summary"
RELAY = "x-presence-relay"
NUMBERS = INTEGERS | FLOATS | {"D", "t"}
PERSISTENT = 2


class PresenceExchange(ExchangeType):
    __slots__ = ("_listeners", "_present", "_relay", "_relays")

    fixed_arguments = (RELAY,)

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        given = arguments.get(RELAY)
        if given is not None and given[0] != "t":
            found = type_name(given)
            raise PreconditionFailed(f"invalid arg '{RELAY}' for exchange '{name}': expected bool, got {found}")
        self._relays = arguments.flag(RELAY) is True
        self._relay: Relay | None = None
        self._listeners = Destinations()
        self._present: dict[Binding, Message] = {}  # with the notice of each for those who come later

    def attach(self, host: ExchangeHost) -> None:
        if self._relays:
            self._relay = Relay(host, self.name, self._listeners)

    def bound(self, binding: Binding) -> Iterable[Notice]:
        if binding.routing_key == "":
            self._listeners.add(binding.destination)
            if wants_summary(binding.arguments.get(SUMMARY)):
                return [Notice([binding.destination], self._present.values())]
            return ()
        notice = self._present[binding] = event("bind", binding)
        return [Notice(self._listeners.all(), [notice])]

    def unbound(self, binding: Binding) -> Iterable[Notice]:
        if binding.routing_key == "":
            self._listeners.remove(binding.destination)
            return ()
        del self._present[binding]
        return [Notice(self._listeners.all(), [event("unbind", binding)])]

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return [self._relay] if self._relay is not None and self._listeners else []


class Relay(Sink):
    """Wraps up what is published, for the listeners.

    Where these are exchanges it may come back here, and then goes no further. What is told to a listener carries the
    name of this exchange, whatever way the message came.
    """

    __slots__ = ("_exchange", "_listeners", "_relaying")

    def __init__(self, host: ExchangeHost, exchange: str, listeners: Destinations) -> None:
        super().__init__(host)
        self._exchange = exchange
        self._listeners = listeners
        self._relaying = False

    def take(self, messages: list[Message]) -> Receipt:
        if self._relaying:
            return TAKEN
        self._relaying = True
        try:
            return self.host.deliver(self._listeners.all(), [self._wrapped(message) for message in messages])
        finally:
            self._relaying = False

    def _wrapped(self, message: Message) -> Message:
        key = message.address.routing_key
        headers = {"action": "message", "exchange": self._exchange, "key": key}
        told = Table.of({**headers, "properties": described(message.properties)})
        properties = Properties(headers=told, delivery_mode=PERSISTENT if message.persistent else None)
        return framed(Address(self._exchange, key), properties, message.body)


def event(action: str, binding: Binding) -> Message:
    headers = {
        "action": action,
        "exchange": binding.source,
        "queue": binding.destination.name,
        "key": binding.routing_key,
    }
    return framed(Address(binding.source, ""), Properties(headers=Table.of(headers)), b"")


def wants_summary(given: Value | None) -> bool:
    """Anything does but false and the number 0, of whatever type."""
    if given is None:
        return True
    kind, value = given
    if kind == "D" and isinstance(value, tuple):
        value = value[1]  # behind the scale
    return kind not in NUMBERS or value != 0
