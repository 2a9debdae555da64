"""The publisher for parts of the broker that bring messages from elsewhere, such as federation links.

It uses the functions that serve clients' publishes, so routing, limits, dead-lettering, the firehose and counters are
the same. There are no permission checks, any user-id is accepted, and alarms do not block it: its owner checks
`Node.alarms` itself.

Contents are body frames as another broker has sent them; they go into the queues unchanged, with a new header frame.
Deliveries and the journal's batch follow at the end of the loop's turn, once for all contents.

A turn of the loop publishes what costs ENQUEUE_COST. A content that costs more by itself, for its routing or its many
queues, is published by a job; nothing is published behind it meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ..amqp import properties
from ..amqp.errors import AMQPError, InternalFault, Invalid
from ..amqp.framing import header_frame, reframe
from ..amqp.limits import SHORT_STRING
from ..core.access.users import InternalUser
from ..core.exchanges.exchange_context import EnqueueSteps
from ..core.exchanges.exchange_type import UpstreamExchange
from ..core.exchanges.router import ENQUEUE_COST, Route
from ..core.jobs.scheduler import Job
from ..core.jobs.unfinished_publishes import UnfinishedPublishes
from ..core.messages.clock import Timer
from ..core.messages.message import NO_ADDRESS, Message, RoutingAddress
from ..core.node.node import Node
from ..core.queues.queue import Queue
from ..core.queues.route_target import PAGE_COST, EnqueueResult, RouteTarget, Targets
from ..core.queues.traffic_log import TrafficLog
from ..core.queues.x_death import DEATHS
from ..core.vhost.vhost import VHost
from .channel import Channel
from .channel_host import CLOSED
from .confirms import Confirms
from .internal_connection import InternalConnection, Report
from .methods import publish as publishing
from .publisher_throttle import HOLD_MS
from .settings import Settings
from .transport import Peer

NUMBER_AT, NUMBER_END = 1, 3  # of the channel, in a frame
NO_NUMBER = b"\x00\x01"  # used while there are no body frames with a channel number
PERSISTENT = 2
NOT_SEEN = -1  # no body has this length
INVALID, REFUSED, HELD = "invalid", "refused", "held"  # reasons for which a content goes into no queue
X_DEATH = frozenset((DEATHS.encode(),))
FLAGS = 2  # bytes of property flags, which are mandatory


Content = tuple[bytes, int, bytes]
"""Properties, length of the body in bytes, and the whole body frames as received."""


@dataclass(slots=True, eq=False)
class PublishResult:
    """The result of publishing several contents.

    count       the contents that it is about; later ones are not published, and should be in a later turn of the loop
    ticket      the journal's ticket that must be durable before they are safe; 0 if there is nothing to wait for
    refused     indexes of contents that some queue refused or would have refused
    invalid     index and reason of contents that no client could have published; they are in no queue
    problem     why the first of those that were `refused` was not published, if it was no queue's limit
    unfinished  the first of the later ones is being published: `InternalPublisher.finish` returns its result
    """

    count: int = 0
    ticket: int = 0
    refused: frozenset[int] = frozenset()
    invalid: dict[int, str] = field(default_factory=dict)
    problem: str = ""
    unfinished: bool = False

    def add(self, later: "PublishResult") -> None:
        """Add the result of the contents that follow these."""
        self.refused |= {self.count + index for index in later.refused}
        self.invalid |= {self.count + index: reason for index, reason in later.invalid.items()}
        self.count += later.count
        self.ticket = max(self.ticket, later.ticket)
        self.problem, self.unfinished = later.problem, later.unfinished


class ConfirmTally(Confirms):
    """Confirms that only record the ticket and the refusals; nothing is sent.

    `logged` is the greatest ticket so far of publishes in the traffic log, `nacked` are refusals not yet in it.
    """

    __slots__ = ("ticket", "left_out", "logged", "nacked")

    def __init__(self) -> None:
        super().__init__()
        self.ticket = self.logged = 0
        self.left_out: list[int] = []
        self.nacked: set[int] = set()

    def published(self, count: int, ticket: int, durable: int) -> bool:
        self.next += count
        if ticket > durable:
            self.ticket = ticket
        return False

    @property
    def has_refusals(self) -> bool:
        return len(self.left_out) > 0

    def refused(self, durable: int) -> None:
        self.left_out.append(self.next)
        self.nacked.add(self.next)
        self.next += 1


class InternalPublisher(InternalConnection):
    """A publisher into one virtual host, until `close`.

    soon         calls a function at the end of the loop's turn
    commit_soon  makes the committer check the journal
    on_finished  called when `finish` can return the result of the unfinished content
    on_release   called when `held` has become False
    brings_from  the upstream exchange whose messages the exchange's type gets (`ExchangeType.on_federated`) in place of
                 routing, or None
    """

    __slots__ = (
        *("on_finished", "on_release", "brings_from", "_soon", "_commit_soon", "_flushes", "_holds", "_was_held"),
        *("_timer", "_tally", "_header", "_direct", "_direct_from", "_unfinished"),
    )

    def __init__(
        self,
        node: Node,
        settings: Settings,
        vhost: VHost,
        name: str,
        report: Report,
        soon: Callable[[Callable[[], None]], object],
        commit_soon: Callable[[], None],
    ) -> None:
        """`name` is that of the connection in the firehose."""
        super().__init__(node, settings, Peer("", 0, "", 0, True, name=name), report, InternalUser(vhost.name), vhost)
        self.on_finished: Callable[[], None] = lambda: None
        self.on_release: Callable[[], None] = lambda: None
        self.brings_from: UpstreamExchange | None = None
        self._soon = soon
        self._commit_soon = commit_soon
        self._flushes = False
        self._holds = False  # while queues that it publishes to are congested
        self._was_held = False
        self._timer: Timer | None = None
        self._channel.all_or_none = True
        self._channel.unfinished = UnfinishedPublishes(node.clock)  # it has one at a time, whatever others have
        self._tally = self._channel.confirms = ConfirmTally()
        # The last header frame, after its channel number, properties and length of the body.
        self._header = (NO_NUMBER, b"", NOT_SEEN, b"")
        self._direct: Route | None = None  # the last route of `put`
        self._direct_from = ("", "")  # its exchange and routing key
        self._unfinished: str | None = None  # the exchange of the content that is being published, empty for `put`

    def comes_from(self, upstream: str, link: str) -> None:
        """Set the names of the upstream and of the queue there, for the traffic log."""
        origin = self._channel.origin
        origin.upstream, origin.link = upstream, link

    def close(self, error: AMQPError | None = None) -> None:
        """End the publisher; published contents stay. A second call has no effect."""
        if self.vhost is not None:
            self._unfinished = None
            self.on_finished = self.on_release = lambda: None
            super().close()
            self.vhost = None
            self.leave_queues()

    # Back-pressure

    @property
    def always_read(self) -> bool:
        return False

    @property
    def held(self) -> bool:
        """True while nothing should be published because consumers or the disk do not keep up.

        Contents that are published then are accepted nevertheless.
        """
        return self._holds or self.suspended > 0

    def hold(self) -> None:
        self._holds = True
        if self._timer is None:
            self._check_later()

    def release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._holds = False
        self.request_flush()

    def _check_later(self) -> None:
        clock = self.node.clock
        self._timer = clock.call_at(clock.now_ms() + HOLD_MS, self._check_progress)

    def _check_progress(self) -> None:
        self._timer = None
        if self.publisher_throttle.queues:
            self._holds = self.publisher_throttle.check_progress()
            self._check_later()
            self.request_flush()

    def request_flush(self) -> None:
        """Call `on_finished` if the unfinished content is published, and `on_release` if a hold has ended."""
        if self._unfinished is not None and (not self._channel.busy or self.state == CLOSED):
            self.on_finished()
        released = self._was_held and not self.held
        self._was_held = self.held
        if released:
            self.on_release()

    # Publishing

    def publish(self, exchange: str, routing_key: str, contents: list[Content]) -> PublishResult:
        """Publish contents in order, as many as one turn of the loop has time for. HOT: the federation bench.

        Raises NotFound (404) or AccessRefused (403) for the exchange, and Invalid for names above 255 bytes; nothing is
        published then. Raises InternalFault (541) after a bug.
        """
        if self.brings_from is not None:
            return self._bring(self.brings_from, RoutingAddress(exchange, routing_key), contents)
        route = self._channel.routes.get((exchange, routing_key)) or self._find_route(exchange, routing_key)
        limited = [target for target in route.queues or () if target.rejects_overflow]
        # Refused contents are published again later, so no queue may get one that another would refuse.
        return self._publish([route], contents, partial(have_room, limited) if limited else None, len(limited))

    def publish_each(self, exchange: str, keys: list[str], contents: list[Content]) -> PublishResult:
        """Publish contents as `publish`, each with its own routing key, until one is refused.

        Those that all queues take are published together. HOT: the federation bench.
        """
        result = PublishResult()
        count = len(keys)
        while result.count < count and not (result.refused or result.unfinished):
            at = result.count
            routes = self._routes_together(exchange, keys[at:], contents[at:])
            if routes:
                added = self._publish(routes, contents[at : at + len(routes)], None, 0)
            else:
                end = next((index for index in range(at, count) if keys[index] != keys[at]), count)
                added = self.publish(exchange, keys[at], contents[at:end])
            if not added.count:
                break
            result.add(added)
        return result

    def _routes_together(self, exchange: str, keys: list[str], contents: list[Content]) -> list[Route]:
        """Return the routes of the first contents: those that all queues take, in one step. Raises as `publish`."""
        routes: list[Route] = []
        if self.brings_from is not None or self._channel.busy or self.spent > ENQUEUE_COST:
            return routes
        cached = self._channel.routes
        limit = ENQUEUE_COST // PAGE_COST if self._channel.vhost.ledger.exceeded else ENQUEUE_COST
        before = self.spent
        targets: Targets | None = None
        takes_all = False
        cost = whole_bytes = 0
        for key, (raw, body_bytes, _) in zip(keys, contents, strict=False):
            route = cached.get((exchange, key)) or self._find_route(exchange, key)
            if route.queues is not targets:
                targets = route.queues
                takes_all = targets is not None and not any(target.rejects_overflow for target in targets)
            cost += route.cost
            whole_bytes += body_bytes + len(raw)
            is_long = cost + self.spent - before > limit or whole_bytes > route.long_bytes
            if not takes_all or route.reads_headers or is_long:
                break
            routes.append(route)
        return routes

    def put(self, queue: Queue, exchange: str, routing_key: str, contents: list[Content]) -> PublishResult:
        """Put contents that were in a queue elsewhere into this one, unrouted, with that exchange and routing key.

        Nothing is published after a content that is invalid, or for which the queue would have to drop or reject a
        message: all from that content on are `refused`. x-death continues, as a broker has written it.
        """
        return self.put_each(queue, [(exchange, routing_key)], contents)

    def put_each(self, queue: Queue, addresses: list[tuple[str, str]], contents: list[Content]) -> PublishResult:
        """Put contents as `put`, each with its own exchange and routing key."""
        limited = queue.settings.drops_head or queue.settings.rejects_publish
        routes = [self._direct_route(queue, exchange, routing_key) for exchange, routing_key in addresses]
        return self._publish(routes, contents, queue.takes if limited else None, 1, stops=True)

    def _publish(
        self,
        routes: list[Route],
        contents: list[Content],
        has_room: Callable[[int], bool] | None,
        cost: int,
        stops: bool = False,
    ) -> PublishResult:
        """Publish contents by one route, or each by its own, until one is refused or, if it `stops`, invalid.

        `has_room` is called with the length of each body, and costs `cost`; without it there is always room.
        """
        channel, tally = self._channel, self._tally
        if channel.busy or self.spent > ENQUEUE_COST:
            self._flush_later()
            return PublishResult()
        invalid: dict[int, str] = {}
        whole, indexes, alike = self._frame(contents, invalid)
        route, addresses = routes[0], [route.address for route in routes]
        if len(routes) > 1 and invalid:
            routes = [routes[index] for index in indexes]
        refused = frozenset[int]()
        problem = ""
        count = len(contents)
        if stops and invalid:
            end, problem = next(iter(invalid.items()))
            refused, invalid = frozenset(range(end, count)), {}
            del whole[end:], indexes[end:]
        tally.ticket = at = 0
        while at < len(whole):
            if self.spent > ENQUEUE_COST:
                count = indexes[at]
                break
            first, rest = tally.next, whole[at:] if at else whole
            if has_room is not None:
                self.spent += cost
                if not has_room(contents[indexes[at]][1]):
                    refused, problem = refused | frozenset(indexes[at:]), ""
                    break
                rest = rest[:1]
            fault = ""
            try:
                if len(addresses) > 1:
                    done = publishing.publish_varied(channel, routes[at:], rest, in_slices=True)
                else:
                    done = publishing.publish(channel, route, rest, alike, in_slices=True)
            except AMQPError as error:  # for the first that was not published; others follow unless it `stops`
                done, fault = tally.next - first, error.reply_text
            if channel.busy:  # with the last of these
                count = indexes[at + done - 1]
                self._unfinished = "" if route.direct else route.exchange.name
                break
            left_out, tally.left_out = tally.left_out, []
            if left_out or fault and stops:
                refused |= {indexes[at + left - first] for left in left_out} | frozenset(indexes[at + done :])
                problem = fault
                break
            if fault:
                invalid[indexes[at + done]] = fault
                done += 1
            at += done
        return self._result(addresses, contents, count, refused, invalid, problem)

    def _result(
        self,
        addresses: list[RoutingAddress],
        contents: list[Content],
        count: int,
        refused: frozenset[int],
        invalid: dict[int, str],
        problem: str = "",
    ) -> PublishResult:
        """Return the result of the first `count` contents, and have these confirmed and delivered.

        `addresses` are those of each content, or the one of all. Raises InternalFault (541) if a bug has ended a job,
        which closes the connection.
        """
        if self.state == CLOSED or self._channel.closing:
            raise InternalFault("the broker failed to publish a message")
        if count < len(contents):
            invalid = {index: reason for index, reason in invalid.items() if index < count}
            refused = frozenset(index for index in refused if index < count)
        for index in invalid:
            address = addresses[index if len(addresses) > 1 else 0]
            self.discard(address.exchange, address.routing_key, contents[index], INVALID)
        ticket, self._tally.ticket = self._tally.ticket, 0
        log = self._channel.vhost.traffic_log
        if log is not None:
            self._log_confirms(log, ticket)
        self._tally.nacked.clear()
        if self.brings_from is None:
            confirmed = count - len(invalid) - len(refused)
            if ticket:
                self.node.journal.when_durable(ticket, partial(count_confirms, self._channel, confirmed))
            else:
                count_confirms(self._channel, confirmed)
        self._flush_later()
        self._was_held = self.held
        return PublishResult(count, ticket, refused, invalid, problem, self._unfinished is not None)

    def _log_confirms(self, log: TrafficLog, ticket: int) -> None:
        """Have the log record confirms of the publishes so far once they are durable, in their order."""
        tally, journal = self._tally, self.node.journal
        tally.logged = max(tally.logged, ticket)
        confirm = partial(log.confirmed, self._channel.origin, 0, tally.next - 1, frozenset(tally.nacked))
        if tally.logged > journal.durable:
            journal.when_durable(tally.logged, confirm)
        else:
            confirm()

    def finish(self) -> PublishResult:
        """Return the result of the content that was unfinished.

        Raises NotFound (404) if its exchange has been deleted, InternalFault (541) if a bug has ended the job; then the
        content may be in some of its queues.
        """
        exchange, self._unfinished = self._unfinished, None
        assert exchange is not None
        self._channel.vhost.exchange(exchange)
        left_out, self._tally.left_out = self._tally.left_out, []
        return self._result([NO_ADDRESS], [], 1, frozenset((0,) if left_out else ()), {})

    def _direct_route(self, queue: Queue, exchange: str, routing_key: str) -> Route:
        """Return the route to one queue; successive messages often have the same."""
        route = self._direct
        if route is None or route.queues != (queue,) or (exchange, routing_key) != self._direct_from:
            address = RoutingAddress(exchange, routing_key)
            default = self._channel.vhost.exchange("")
            targets = route.queues if route is not None and route.queues == (queue,) else (queue,)
            route = self._direct = Route(address, default, targets, False, X_DEATH, direct=True)
            self._direct_from = exchange, routing_key
        return route

    def _bring(self, upstream: UpstreamExchange, address: RoutingAddress, contents: list[Content]) -> PublishResult:
        """Pass contents to the exchange's type, as many as one turn of the loop has time for."""
        channel, tally = self._channel, self._tally
        if channel.busy or self.spent > ENQUEUE_COST:
            self._flush_later()
            return PublishResult()
        type_ = channel.vhost.exchange(address.exchange).type
        refused = frozenset[int]()
        invalid: dict[int, str] = {}
        count = tally.ticket = 0
        for count, content in enumerate(contents, 1):
            raw, body_bytes, frames = content
            if fault := self._size_fault(raw, body_bytes):
                invalid[count - 1] = fault
                continue
            try:
                persistent = properties.check(raw) == PERSISTENT
                message = Message(address, header_frame(0, raw, body_bytes) + frames, 0, body_bytes, 0, persistent)
                steps = self._enqueue_federated(type_.on_federated(message, upstream), address, content)
                for cost in steps:
                    self.spent += cost
                    if self.spent > ENQUEUE_COST:
                        channel.start_job("federated message", steps, appends=True)
                        break
            except AMQPError as error:
                invalid[count - 1] = error.reply_text
                continue
            if channel.busy:
                count -= 1
                self._unfinished = address.exchange
                break
            if tally.left_out:
                refused |= {count - 1}
                tally.left_out = []
            if self.spent > ENQUEUE_COST:
                break
        emissions = channel.vhost.emissions_of(address.exchange)
        if emissions is not None and emissions.full:
            self.suspend()
            emissions.when_enqueued(self.resume)
        return self._result([address], contents, count, refused, invalid)

    def _enqueue_federated(self, steps: EnqueueSteps | EnqueueResult, address: RoutingAddress, content: Content) -> Job:
        """Do the steps, if there are any, and record the result of the type."""
        result = steps if isinstance(steps, EnqueueResult) else (yield from steps)
        journal = self.node.journal
        if result.refused:
            self._tally.refused(journal.durable)
        else:
            self._tally.published(1, journal.ticket() if result.stored else 0, journal.durable)
        self.discard(address.exchange, address.routing_key, content, REFUSED if result.refused else HELD)

    def discard(self, exchange: str, routing_key: str, content: Content, reason: str) -> None:
        """Note in the traffic log, if there is one, that a content goes into no queue."""
        log = self._channel.vhost.traffic_log
        if log is not None:
            raw, body_bytes, frames = content
            whole = header_frame(0, raw, body_bytes) + frames
            message = Message(RoutingAddress(exchange, routing_key), whole, 0, body_bytes, 0, False)
            log.discarded(self._channel.origin, message, reason)

    def flush(self) -> None:
        """Deliver and store published contents without waiting for the end of the turn."""
        self._flushes = False
        self.spent = 0
        self.node.pump()
        self._commit_soon()

    def _flush_later(self) -> None:
        if not self._flushes:
            self._flushes = True
            self._soon(self.flush)

    def _find_route(self, exchange: str, routing_key: str) -> Route:
        """Find a route and cache it. Raises AccessRefused (403), NotFound (404), Invalid."""
        if any(len(name.encode("utf-8", "surrogateescape")) > SHORT_STRING for name in (exchange, routing_key)):
            raise Invalid(f"a name or a routing key has at most {SHORT_STRING} bytes")
        route = publishing.find_route(self._channel, exchange, routing_key, mandatory=False)
        publishing.remember_route(self._channel, (exchange, routing_key), route)
        return route

    def _frame(self, contents: list[Content], invalid: dict[int, str]) -> tuple[list[bytes], list[int], bool]:
        """Return the frames of each valid content, the indexes of these, and whether all header frames are equal.

        The header frame has the channel number of the body frames, so that these need not be copied.
        """
        number, seen, seen_bytes, header = self._header
        for _, _, frames in contents:
            if frames:
                if frames[NUMBER_AT:NUMBER_END] != number:
                    number, seen_bytes = frames[NUMBER_AT:NUMBER_END], NOT_SEEN
                    self._channel.number = int.from_bytes(number, "big")
                break
        whole: list[bytes] = []
        indexes: list[int] = []
        alike = True
        for index, (raw, body_bytes, frames) in enumerate(contents):
            if body_bytes != seen_bytes or raw != seen:
                if fault := self._size_fault(raw, body_bytes):
                    invalid[index] = fault
                    continue
                seen, seen_bytes, header = raw, body_bytes, header_frame(self._channel.number, raw, body_bytes)
                alike = not whole
            if frames and frames[NUMBER_AT:NUMBER_END] != number:
                frames = reframe(frames, self._channel.number, 0)
            whole.append(header + frames)
            indexes.append(index)
        self._header = number, seen, seen_bytes, header
        return whole, indexes, alike

    def _size_fault(self, raw: bytes, body_bytes: int) -> str:
        """Return why no client could publish or get a message of this size, or an empty text."""
        settings = self.settings
        if body_bytes > settings.max_message_size:
            return f"message size {body_bytes} is larger than configured max size {settings.max_message_size}"
        if fault := settings.properties_fault(len(raw)):
            return fault
        return "" if len(raw) >= FLAGS else "content header has no property flags"


def have_room(targets: list[RouteTarget], body_bytes: int) -> bool:
    """Return whether all of these targets have room for a body of this length."""
    return all(target.has_room(body_bytes) for target in targets)


def count_confirms(channel: Channel, count: int) -> None:
    channel.publishing.confirm += count
    channel.statistics.publishing.confirm += count
