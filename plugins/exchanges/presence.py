"""The exchange type x-presence: notifies listening queues when other bindings are made and deleted.

A binding with the empty key is a listener. A binding with any other key is a presence: when it is made or deleted, each
listener gets a notice, which is a message with an empty body and these headers:

    action    bind, or unbind
    exchange  the name of this exchange
    queue     the name of the bound queue or exchange
    key       the binding key

A new listener gets a `bind` for each presence, unless it is bound with x-presence-exchange-summary false or 0. Messages
that clients publish to the exchange are not routed, since they could imitate notices. If the exchange has the argument
x-presence-relay true, each listener gets them with the same body, but with these headers in place of the client's:

    action      message
    exchange    the name of this exchange
    key         the routing key
    properties  the properties, headers among them, as a table

If the exchange is federated, listeners also get notices of presences at other sites, with the headers cluster-name and
vhost of the site, and the exchange there as `queue`. They are learnt in two ways: a downstream link binds its internal
exchange as its own exchange is bound (x-bound-from), and a local link binds its internal exchange upstream as a
listener of a special kind (`upstream_binding`). Such a listener gets a notice for each path of a presence, with the
path in x-received-from, so that a notice travels no farther than a message could. It also gets notices at the beginning
and the end of a summary (the action `summary`, with `complete` false and true), so that presences that ended unnoticed
are removed.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from warren.broker.amqp.federation_headers import RECEIVED_FROM
from warren.broker.amqp.field_table import FLOATS, INTEGERS, type_name
from warren.broker.core.telemetry.firehose import property_table
from warren.broker.plugin import (
    ACCEPTED,
    Binding,
    Destination,
    Destinations,
    Emission,
    EnqueueResult,
    EnqueueSteps,
    ExchangeContext,
    ExchangeType,
    Message,
    PreconditionFailed,
    Properties,
    RoomSteps,
    RoutingAddress,
    Sink,
    Table,
    UpstreamExchange,
    Value,
    framed,
)

from .federated_presence import (
    TEXT_LIMIT,
    Change,
    Path,
    Presence,
    RemotePresences,
    decode_path,
    encode_path,
    presence_of_binding,
)

SUMMARY = "x-presence-exchange-summary"
RELAY = "x-presence-relay"
NUMBERS = INTEGERS | FLOATS | {"D", "t"}
PERSISTENT = 2
FEDERATED = "x-presence-federated"  # the argument of a link's binding as a listener
NOT_PASSED: Path = ()
REMOVED_AT_ONCE = 100  # presences at other sites, each with a notice for every listener
SUMMARY_SLICE = 50  # notices for a link that are made together


class PresenceExchange(ExchangeType):
    """A presence exchange. `remote` has the presences at other sites."""

    description = "Presence exchange: reports which of its bindings come and go"

    __slots__ = (
        "routes_by_key_only",
        "_context",
        "_listeners",
        "_links",
        "_local_notices",
        "_keys",
        "remote",
        "_remote_notices",
        "_restored",
        "_relay",
        "_removing",
        "_deleted",
    )

    fixed_arguments = (RELAY,)
    upstream_binding = ("", Table.of({FEDERATED: True}))

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name, arguments)
        argument = arguments.get(RELAY)
        if argument is not None and argument[0] != "t":
            kind = type_name(argument)
            raise PreconditionFailed(f"invalid arg '{RELAY}' for exchange '{name}': expected bool, got {kind}")
        self.routes_by_key_only = not self.relays  # or the cost of a route is that of each message
        self._removing = False  # true if the rest of the removals is due in the next turn
        self._deleted = False
        self._relay: Relay | None = None
        self._context: ExchangeContext | None = None
        self._listeners = Destinations()
        self._links = Destinations()
        self._local_notices: dict[Binding, Message] = {}  # notices of local presences, for later listeners
        self._keys: dict[str, int] = {}  # the number of local presences by key
        self.remote = RemotePresences()
        self._remote_notices: dict[Presence, Message] = {}  # notices of presences at other sites, for later listeners
        self._restored: set[Destination] = set()  # listeners that were bound before this broker was started

    def on_created(self, context: ExchangeContext) -> None:
        self._context = context
        if self.relays:
            self._relay = Relay(context, self.name, self._listeners, self._links)

    # Bindings

    def on_bind(self, binding: Binding) -> Iterable[Emission]:
        key = binding.routing_key
        if key == "":
            return self._add_listener(binding)
        presence_path = presence_of_binding(binding)
        if presence_path is not None:
            return self._notify(self.remote.hold(*presence_path, binding))
        self._local_notices[binding] = local_notice("bind", binding)
        self._keys[key] = self._keys.get(key, 0) + 1
        notices = [Emission(self._listeners.all(), [self._local_notices[binding]])]
        if self._keys[key] == 1:
            notices.append(Emission(self._links.all(), [self._link_notice("bind", self.name, key, NOT_PASSED)]))
        return notices

    def on_unbind(self, binding: Binding) -> Iterable[Emission]:
        key = binding.routing_key
        if key == "":
            of_a_link = binding.arguments.flag(FEDERATED)
            (self._links if of_a_link else self._listeners).remove(binding.destination)
            self._restored.discard(binding.destination)
            return ()
        presence_path = presence_of_binding(binding)
        if presence_path is not None:
            presence, _, path = presence_path
            return self._notify(self.remote.release(presence, path, binding))
        del self._local_notices[binding]
        notices = [Emission(self._listeners.all(), [local_notice("unbind", binding)])]
        self._keys[key] -= 1
        if not self._keys[key]:
            del self._keys[key]
            notices.append(Emission(self._links.all(), [self._link_notice("unbind", self.name, key, NOT_PASSED)]))
        return notices

    def _add_listener(self, binding: Binding) -> Iterator[Emission]:
        if binding.arguments.flag(FEDERATED):
            self._links.add(binding.destination)
            return self._summary_for_link(binding.destination)
        self._listeners.add(binding.destination)
        self._restored.add(binding.destination)
        return self._summary(binding)

    def _summary(self, binding: Binding) -> Iterator[Emission]:
        """Yield the notices of all presences if the binding wants a summary. A restart restores bindings without it."""
        self._restored.discard(binding.destination)
        if wants_summary(binding.arguments.get(SUMMARY)):
            yield Emission([binding.destination], [*self._local_notices.values(), *self._remote_notices.values()])

    def _summary_for_link(self, link: Destination) -> Iterator[Emission]:
        """Yield notices of all presences in slices, for a link, which ignores known presences."""
        keys = iter(list(self._keys))
        changes = self.remote.all()
        yield Emission([link], [self._summary_mark(False)])
        while some := list(islice(keys, SUMMARY_SLICE)):
            yield Emission([link], [self._link_notice("bind", self.name, key, NOT_PASSED) for key in some])
        while more := list(islice(changes, SUMMARY_SLICE)):
            yield Emission(
                [link],
                [self._link_notice("bind", change.exchange, change.presence.key, change.path) for change in more],
            )
        yield Emission([link], [self._summary_mark(True)])

    # Presences at other sites

    def on_federated(self, message: Message, upstream: UpstreamExchange) -> EnqueueResult | EnqueueSteps:
        assert self._context is not None
        headers = message.headers
        path = decode_path(headers.get(RECEIVED_FROM))
        action = headers.text("action")
        if not path or action is None:
            return ACCEPTED
        if action == "message":
            return self._relay.forward(message, headers, path) if self._relay is not None else ACCEPTED
        self._context.emit(self._apply_notice(action, upstream, headers, path))
        return ACCEPTED

    def on_upstream_detached(self, upstream: UpstreamExchange) -> None:
        self.remote.detach(upstream)
        self._notify_of_removals()

    def on_deleted(self) -> None:
        self._deleted = True

    def release(self) -> Iterator[int]:
        while self._local_notices or self._remote_notices:
            for notices in (self._local_notices, self._remote_notices):
                if notices:
                    notices.popitem()
            yield 1
        yield from self.remote.release_all()

    def _notify_of_removals(self) -> None:
        """Notify of some presences that a source no longer announces, and of the others in later turns of the loop."""
        assert self._context is not None
        if self._deleted:
            return
        if not self._context.emitting:
            for change in self.remote.remove_some(REMOVED_AT_ONCE):
                self._context.emit(self._notify(change))
        if self.remote.removes and not self._removing:
            self._removing = True
            self._context.call_at(self._context.clock.now_ms(), self._continue_removals)

    def _continue_removals(self) -> None:
        self._removing = False
        self._notify_of_removals()

    def _apply_notice(self, action: str, source: UpstreamExchange, headers: Table, path: Path) -> list[Emission]:
        remote = self.remote
        if action == "summary":
            if not headers.flag("complete"):
                remote.begin_summary(source)
                return []
            remote.end_summary(source)
            self._notify_of_removals()
            return []
        key = headers.text("key")
        exchange = source.exchange if len(path) == 1 else headers.text("queue") or ""
        if not key or max(len(key), len(exchange)) > TEXT_LIMIT:
            return []
        presence = Presence(*path[-1], key)
        if action == "bind":
            # Restored listeners were notified before this broker was started.
            listeners = self._new_listeners() if remote.may_repeat(source) else None
            return self._notify(remote.announce(source, presence, exchange, path), listeners)
        if action != "unbind":
            return []
        change = remote.withdraw(source, presence, path)
        if change is None and presence not in remote and not remote.complete(source):
            message = remote_notice("unbind", self.name, presence, exchange)
            return [Emission([each for each in self._listeners.all() if each in self._restored], [message])]
        return self._notify(change)

    def _new_listeners(self) -> list[Destination]:
        return [each for each in self._listeners.all() if each not in self._restored]

    def _notify(self, change: Change | None, listeners: Collection[Destination] | None = None) -> list[Emission]:
        """Return the notices of a change, for links and for `listeners`, or all listeners if it is None."""
        if change is None:
            return []
        action, presence, exchange, path, whole = change
        notices = [Emission(self._links.all(), [self._link_notice(action, exchange, presence.key, path)])]
        if whole:
            message = remote_notice(action, self.name, presence, exchange)
            if action == "bind":
                self._remote_notices[presence] = message
            else:
                del self._remote_notices[presence]
            notices.append(Emission(self._listeners.all() if listeners is None else listeners, [message]))
        return notices

    def _link_notice(self, action: str, exchange: str, key: str, path: Path) -> Message:
        """Return a new notice for links: never a shared message, since each one gets an identity."""
        headers = Table.of(notice_headers(action, self.name, exchange, key))
        return notice(self.name, headers.with_items([(RECEIVED_FROM, encode_path(path))]) if path else headers)

    def _summary_mark(self, complete: bool) -> Message:
        return notice(self.name, Table.of({"action": "summary", "exchange": self.name, "complete": complete}))

    # Messages

    @property
    def relays(self) -> bool:
        return self.arguments.flag(RELAY) is True

    @property
    def route_cost(self) -> int:
        """The cost of relaying a message, which the relay enqueues at once."""
        return len(self._listeners.all()) + len(self._links.all()) if self._relay is not None else 0

    def route(self, keys: tuple[str, ...], message: Message) -> list[Destination]:
        return [self._relay] if self._relay is not None and (self._listeners or self._links) else []


class Relay(Sink):
    """A sink that relays published messages to the listeners, with headers of the exchange in place of the client's.

    A listener may be an exchange that routes to this one or to another relay; these do not get the message (`relays`).
    The header `exchange` is always the name of this exchange. Messages from a link have such headers already.
    """

    __slots__ = ("_exchange", "_listeners", "_links")

    def __init__(self, context: ExchangeContext, exchange: str, listeners: Destinations, links: Destinations) -> None:
        super().__init__(context)
        self._exchange = exchange
        self._listeners = listeners
        self._links = links

    def handle(self, messages: list[Message]) -> EnqueueResult:
        return self.context.deliver(self._receivers(), [self._wrap(message) for message in messages])

    def accept_in_steps(self, messages: list[Message]) -> EnqueueSteps:
        return self.context.deliver_in_steps(self._receivers(), [self._wrap(message) for message in messages])

    def has_room_in_steps(self, message: Message) -> RoomSteps:
        return self.context.destinations_have_room(self._receivers(), self._wrap(message))

    def forward(self, message: Message, headers: Table, path: Path) -> EnqueueSteps:
        """Relay a message that another site has relayed, adding the site, in steps.

        No listener gets it while another one would refuse it, because the link then repeats it.
        """
        key = headers.text("key") or ""
        cluster_name, vhost = path[-1]
        own = Table.of({"action": "message", "exchange": self._exchange, "key": key})
        own = Table(own.raw + headers.without(["action", "exchange", "key", "cluster-name", "vhost"]).raw)
        own = Table(own.raw + Table.of({"cluster-name": cluster_name, "vhost": vhost}).raw)
        properties = Properties(headers=own, delivery_mode=PERSISTENT if message.persistent else None)
        relayed = framed(RoutingAddress(self._exchange, message.address.routing_key), properties, message.body)
        if not (yield from self.context.destinations_have_room(self._receivers(), relayed)):
            return EnqueueResult(False, frozenset((0,)))
        return (yield from self.context.deliver_in_steps(self._receivers(), [relayed]))

    def _receivers(self) -> list[Destination]:
        return [*self._listeners.all(), *self._links.all()]

    def _wrap(self, message: Message) -> Message:
        key = message.address.routing_key
        headers = {"action": "message", "exchange": self._exchange, "key": key}
        own = Table.of({**headers, "properties": property_table(message.properties)})
        properties = Properties(headers=own, delivery_mode=PERSISTENT if message.persistent else None)
        return framed(RoutingAddress(self._exchange, key), properties, message.body)


def notice(exchange: str, headers: Table) -> Message:
    return framed(RoutingAddress(exchange, ""), Properties(headers=headers), b"")


def notice_headers(action: str, exchange: str, queue: str, key: str) -> dict[str, str]:
    """Return the headers of the notice of a presence at `queue`, an exchange there if it is at another site."""
    return {"action": action, "exchange": exchange, "queue": queue, "key": key}


def local_notice(action: str, binding: Binding) -> Message:
    headers = notice_headers(action, binding.source, binding.destination.name, binding.routing_key)
    return notice(binding.source, Table.of(headers))


def remote_notice(action: str, name: str, presence: Presence, exchange: str) -> Message:
    """Return the notice of the presence exchange `name` for a presence at `exchange` of another site."""
    headers = notice_headers(action, name, exchange, presence.key)
    return notice(name, Table.of({**headers, "cluster-name": presence.cluster_name, "vhost": presence.vhost}))


def wants_summary(argument: Value | None) -> bool:
    """Return whether a binding's argument asks for a summary: any value except false and numbers equal to 0."""
    if argument is None:
        return True
    kind, value = argument
    if kind == "D" and isinstance(value, tuple):
        value = value[1]  # after the scale
    return kind not in NUMBERS or value != 0
