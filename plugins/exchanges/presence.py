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

Where links of federation lead here or from here, listeners are told of the presences of other sites too, with the
headers cluster-name and vhost of the site, and its exchange as `queue`. Links bring them on two ways: bindings of
another site's exchange stand for what is bound to that (x-bound-from), and links from here are bound to the exchange
upstream as listeners of their own kind (`listening`). Those are told each way by which a presence is known here, in
x-received-from, so that it goes no further than a message could; and where a summary begins and ends (the action
`summary`, with `complete` false and true), so that what vanished unheard of is seen to be gone.
"""

from collections.abc import Collection, Iterable, Iterator

from warren.broker.amqp.field_table import FLOATS, INTEGERS, type_name
from warren.broker.core.telemetry.firehose import described
from warren.broker.plugin import (
    ACCEPTED,
    Address,
    Binding,
    Destination,
    Destinations,
    Emission,
    EnqueueResult,
    ExchangeContext,
    ExchangeType,
    Message,
    PreconditionFailed,
    Properties,
    Sink,
    Table,
    Value,
    framed,
)

from .federated_presence import (
    RECEIVED_FROM,
    TEXT_LIMIT,
    Change,
    Elsewhere,
    Presence,
    Source,
    Way,
    brought_by,
    passed,
    sites,
)

SUMMARY = "x-presence-exchange-summary"
RELAY = "x-presence-relay"
NUMBERS = INTEGERS | FLOATS | {"D", "t"}
PERSISTENT = 2
FEDERATED = "x-presence-federated"  # of the binding of a link that is a listener of its own kind
NOT_PASSED: Way = ()


class PresenceExchange(ExchangeType):
    """`elsewhere` are the presences that it knows of other sites."""

    description = "Presence exchange: reports which of its bindings come and go"

    __slots__ = (
        "_context",
        "_listeners",
        "_links",
        "_present",
        "_keys",
        "elsewhere",
        "_there",
        "_restored",
        "_relay",
        "_relays",
    )

    fixed_arguments = (RELAY,)
    upstream_binding = ("", Table.of({FEDERATED: True}))

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        given = arguments.get(RELAY)
        if given is not None and given[0] != "t":
            found = type_name(given)
            raise PreconditionFailed(f"invalid arg '{RELAY}' for exchange '{name}': expected bool, got {found}")
        self._relays = arguments.flag(RELAY) is True
        self._relay: Relay | None = None
        self._context: ExchangeContext | None = None
        self._listeners = Destinations()
        self._links = Destinations()
        self._present: dict[Binding, Message] = {}  # with the notice of each for those who come later
        self._keys: dict[str, int] = {}  # how many of them have this one
        self.elsewhere = Elsewhere()
        self._there: dict[Presence, Message] = {}  # likewise of other sites
        self._restored: set[Destination] = set()  # listeners that have been here since before this broker was started

    def on_created(self, context: ExchangeContext) -> None:
        self._context = context
        if self._relays:
            self._relay = Relay(context, self.name, self._listeners, self._links)

    # Bindings

    def on_bind(self, binding: Binding) -> Iterable[Emission]:
        key = binding.routing_key
        if key == "":
            return self._listened(binding)
        found = brought_by(binding)
        if found is not None:
            return self._notices(self.elsewhere.hold(*found, binding))
        notice = self._present[binding] = event("bind", binding)
        self._keys[key] = self._keys.get(key, 0) + 1
        notices = [Emission(self._listeners.all(), [notice])]
        if self._keys[key] == 1:
            notices.append(Emission(self._links.all(), [self._passed_on("bind", self.name, key, NOT_PASSED)]))
        return notices

    def on_unbind(self, binding: Binding) -> Iterable[Emission]:
        key = binding.routing_key
        if key == "":
            of_a_link = binding.arguments.flag(FEDERATED)
            (self._links if of_a_link else self._listeners).remove(binding.destination)
            self._restored.discard(binding.destination)
            return ()
        found = brought_by(binding)
        if found is not None:
            presence, _, way = found
            return self._notices(self.elsewhere.release(presence, way, binding))
        del self._present[binding]
        notices = [Emission(self._listeners.all(), [event("unbind", binding)])]
        self._keys[key] -= 1
        if not self._keys[key]:
            del self._keys[key]
            notices.append(Emission(self._links.all(), [self._passed_on("unbind", self.name, key, NOT_PASSED)]))
        return notices

    def _listened(self, binding: Binding) -> Iterator[Emission]:
        if binding.arguments.flag(FEDERATED):
            self._links.add(binding.destination)
            return self._summary_for_link(binding.destination)
        self._listeners.add(binding.destination)
        self._restored.add(binding.destination)
        return self._summary(binding)

    def _summary(self, binding: Binding) -> Iterator[Emission]:
        """At a restart nobody asks for it, so this does not run."""
        self._restored.discard(binding.destination)
        if wants_summary(binding.arguments.get(SUMMARY)):
            yield Emission([binding.destination], [*self._present.values(), *self._there.values()])

    def _summary_for_link(self, link: Destination) -> Iterator[Emission]:
        here = [self._passed_on("bind", self.name, key, NOT_PASSED) for key in self._keys]
        there = [
            self._passed_on("bind", change.exchange, change.presence.key, change.way) for change in self.elsewhere.all()
        ]
        yield Emission([link], [self._mark(False), *here, *there, self._mark(True)])

    # Presences elsewhere

    def on_federated(self, message: Message) -> EnqueueResult:
        assert self._context is not None
        headers = message.headers
        way = sites(headers.get(RECEIVED_FROM))
        action, exchange = headers.text("action"), headers.text("exchange")
        if not way or action is None or exchange is None:
            return ACCEPTED
        if action == "message":
            return self._relay.hand_on(message, headers, way) if self._relay is not None else ACCEPTED
        for notice in self._learnt(action, Source(*way[0], exchange), headers, way):
            self._context.deliver(notice.destinations, notice.messages)
        return ACCEPTED

    def on_upstream_detached(self, cluster_name: str, vhost: str, exchange: str) -> None:
        assert self._context is not None
        for change in self.elsewhere.parted(Source(cluster_name, vhost, exchange)):
            for notice in self._notices(change):
                self._context.deliver(notice.destinations, notice.messages)

    def _learnt(self, action: str, source: Source, headers: Table, way: Way) -> list[Emission]:
        elsewhere = self.elsewhere
        if action == "summary":
            if not headers.flag("complete"):
                elsewhere.begin(source)
                return []
            return [notice for change in elsewhere.end(source) for notice in self._notices(change)]
        key = headers.text("key")
        exchange = source.exchange if len(way) == 1 else headers.text("queue") or ""
        if not key or max(len(key), len(exchange)) > TEXT_LIMIT:
            return []
        presence = Presence(*way[-1], key)
        if action == "bind":
            # What was here before the start of this broker was told then, but to those who have come since.
            told = self._newcomers() if elsewhere.recalls(source) else None
            return self._notices(elsewhere.bring(source, presence, exchange, way), told)
        if action != "unbind":
            return []
        change = elsewhere.take_back(source, presence, way)
        if change is None and presence not in elsewhere and not elsewhere.complete(source):
            message = notice_of("unbind", self.name, presence, exchange)
            return [Emission([each for each in self._listeners.all() if each in self._restored], [message])]
        return self._notices(change)

    def _newcomers(self) -> list[Destination]:
        return [each for each in self._listeners.all() if each not in self._restored]

    def _notices(self, change: Change | None, listeners: Collection[Destination] | None = None) -> list[Emission]:
        """For these listeners, all unless said, and for links."""
        if change is None:
            return []
        action, presence, exchange, way, whole = change
        notices = [Emission(self._links.all(), [self._passed_on(action, exchange, presence.key, way)])]
        if whole:
            message = notice_of(action, self.name, presence, exchange)
            if action == "bind":
                self._there[presence] = message
            else:
                del self._there[presence]
            notices.append(Emission(self._listeners.all() if listeners is None else listeners, [message]))
        return notices

    def _passed_on(self, action: str, exchange: str, key: str, way: Way) -> Message:
        """What links are told: always a message of its own, as an identity is given to each."""
        headers = Table.of({"action": action, "exchange": self.name, "queue": exchange, "key": key})
        if way:
            headers = headers.with_items([(RECEIVED_FROM, passed(way))])
        return framed(Address(self.name, ""), Properties(headers=headers), b"")

    def _mark(self, complete: bool) -> Message:
        headers = Table.of({"action": "summary", "exchange": self.name, "complete": complete})
        return framed(Address(self.name, ""), Properties(headers=headers), b"")

    # Messages

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return [self._relay] if self._relay is not None and (self._listeners or self._links) else []


class Relay(Sink):
    """Wraps up what is published, for the listeners.

    Where these are exchanges it may come back here, and then goes no further. What is told to a listener carries the
    name of this exchange, whatever way the message came. What a link brings is wrapped up already.
    """

    __slots__ = ("_exchange", "_listeners", "_links", "_relaying")

    def __init__(self, context: ExchangeContext, exchange: str, listeners: Destinations, links: Destinations) -> None:
        super().__init__(context)
        self._exchange = exchange
        self._listeners = listeners
        self._links = links
        self._relaying = False

    def handle(self, messages: list[Message]) -> EnqueueResult:
        return self._tell([self._wrapped(message) for message in messages])

    def hand_on(self, message: Message, headers: Table, way: Way) -> EnqueueResult:
        """As another site has wrapped it up."""
        key = headers.text("key") or ""
        cluster_name, vhost = way[-1]
        told = Table.of({"action": "message", "exchange": self._exchange, "key": key})
        told = Table(told.raw + headers.without(["action", "exchange", "key", "cluster-name", "vhost"]).raw)
        told = Table(told.raw + Table.of({"cluster-name": cluster_name, "vhost": vhost}).raw)
        properties = Properties(headers=told, delivery_mode=PERSISTENT if message.persistent else None)
        return self._tell([framed(Address(self._exchange, message.address.routing_key), properties, message.body)])

    def _tell(self, messages: list[Message]) -> EnqueueResult:
        if self._relaying:
            return ACCEPTED
        self._relaying = True
        try:
            return self.context.deliver([*self._listeners.all(), *self._links.all()], messages)
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


def notice_of(action: str, name: str, presence: Presence, exchange: str) -> Message:
    """What the presence exchange of that name tells of a presence elsewhere, at that exchange."""
    headers = {
        "action": action,
        "exchange": name,
        "queue": exchange,
        "key": presence.key,
        "cluster-name": presence.cluster_name,
        "vhost": presence.vhost,
    }
    return framed(Address(name, ""), Properties(headers=Table.of(headers)), b"")


def wants_summary(given: Value | None) -> bool:
    """Anything does but false and the number 0, of whatever type."""
    if given is None:
        return True
    kind, value = given
    if kind == "D" and isinstance(value, tuple):
        value = value[1]  # behind the scale
    return kind not in NUMBERS or value != 0
