"""basic.publish: checks, routing, enqueueing, returns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import chain, repeat
from struct import Struct
from typing import Final

from ...amqp import properties
from ...amqp.errors import AccessRefused, AMQPError, NotSupported, PreconditionFailed, SyntaxFault
from ...amqp.framing import CONTENT_FIXED, FRAME_HEAD, FRAME_OVERHEAD
from ...core.exchanges.deduplicating import DiscardSink
from ...core.exchanges.exchange_type import DESTINATIONS_SHIFT, Accepted
from ...core.exchanges.route_cache import LIMIT_BYTES, size_of
from ...core.exchanges.router import ENQUEUE_COST, FEW, LONG_BYTES, SEARCH_COST, Route, RouteKey, Search
from ...core.jobs.scheduler import STORE_SHIFT, TURN_COST, Job
from ...core.messages.journal_port import BEHIND, ROOM
from ...core.messages.message import (
    LONG_HEADER,
    Message,
    RoutingAddress,
    SharedMessage,
    frame_bytes,
    header_bytes_of,
    total_bytes,
)
from ...core.messages.message_state import BY_QUEUE, NO_TTL, MessageState
from ...core.queues.deduplication import Recorders, find_duplicate, record
from ...core.queues.ledger import Ledger
from ...core.queues.queue import Queue
from ...core.queues.reply_queue import ReplyQueue
from ...core.queues.route_target import (
    ACCEPTED,
    DURABLE,
    PAGE_COST,
    PER_MESSAGE_COST,
    SHARED,
    EnqueueResult,
    RouteTarget,
    Targets,
    await_outboxes,
    cost_of_each,
    cost_of_reading,
    existing,
    in_parts,
    looks_at_each,
    must_wait,
    records_of,
)
from ...core.queues.traffic_log import COMMIT
from ...core.queues.x_death import routing_keys
from ...wire import method_encoder
from ...wire.frame_reader import PUBLISH, Publishes
from ..channel import Channel
from ..checked_properties import UNKNOWN
from .special_properties import apply_special_properties, copy_keys

MANDATORY: Final = 1
IMMEDIATE: Final = 2
SIZE_AT: Final = 3  # offset of the frame size in a header frame; class, weight and body size follow
LONG_HEADER_SIZE: Final = LONG_HEADER - 2 * FRAME_OVERHEAD  # of a header frame that may make a long header
PROPERTIES_AT: Final = FRAME_HEAD + CONTENT_FIXED
STILL_DEAD_LETTERING: Final = "earlier messages that the queue has rejected are still being dead-lettered"
STILL_PUBLISHING: Final = "earlier messages of this user, for very many queues, are still being published"
NO_HEADER: Final = b"\0"  # no header frame begins with this byte
SEARCHED_COST: Final = 20  # of a message whose targets are searched for, beside its search
ALONE_COST: Final = 15  # of a publish by itself to few queues
TRACED_COST: Final = 20  # of a message that is routed by itself for a tracer, beside its copy
LOOKS: Final = 2_000  # queues that are asked in one step whether they are full
IDS: Final = 6  # bytes of class id, method id and ticket before the exchange name

_sizes: Final[Callable[[bytes, int], tuple[int, int]]] = Struct(">I4xQ").unpack_from


def serve(channel: Channel, publishes: Publishes) -> None:
    """Serve a run of basic.publish; the rest for another turn becomes `Connection.deferred`. HOT: bench A-M."""
    try:
        if channel.vhost.held:
            channel.await_tracing()
        methods, contents = publishes.methods, publishes.contents
        if not contents:
            raise too_long(channel, publishes)
        if len(methods) > 1:
            publish_mixed(channel, publishes)
            return
        route = channel.routes.get(methods[0]) or resolve(channel, methods[0])
        if channel.unfinished.full:
            contents = at_once(channel, route, contents)
            contents = contents[: admit_short(channel, repeat(route), contents)]
        published = publish(channel, route, contents, publishes.alike, publishes.largest_frame, True)
        if published < len(publishes.contents):
            channel.connection.deferred = publishes.after(published)
    except AMQPError as error:
        raise error.of_method(PUBLISH) from None


def publish(
    channel: Channel, route: Route, contents: list[bytes], alike: bool, largest_frame: int = 0, in_slices: bool = False
) -> int:
    """Publish contents by one route; return how many. HOT: bench A-M.

    contents       header frame and body frames of each content, on the channel's number
    alike          whether their header frames are all the same
    largest_frame  length of the longest frame in bytes, 0 if no content has more than one body frame
    in_slices      leave the rest where they cost more than ENQUEUE_COST

    Raises PreconditionFailed (406), AccessRefused (403), NotFound (404), SyntaxFault (502).
    """
    if in_slices and len(contents) > 1:
        contents = at_once(channel, route, contents)
    if not alike:
        return publish_varied(channel, repeat(route), contents, in_slices)
    first = contents[0]
    header_bytes, body_bytes = _sizes(first, SIZE_AT)
    raw = first[PROPERTIES_AT : FRAME_HEAD + header_bytes]
    checked = channel.checked
    if raw != checked.raw:
        checked.check(raw)
    largest = largest_frame or max(header_bytes, body_bytes) + FRAME_OVERHEAD
    number = channel.number
    persistent = checked.persistent
    address = route.address
    count = len(contents)
    queues = route.queues
    ledger = channel.vhost.ledger
    messages: list[Message]
    if queues is not None and len(queues) > 1 and not largest_frame and channel.transaction is None:
        shared, counted = ledger.shared, len(first) + SharedMessage.ALONE  # all contents have the same length
        messages = [
            SharedMessage(address, content, number, body_bytes, largest, persistent, shared, counted)
            for content in contents
        ]
        shared.total += counted * count
    elif count == 1:  # a comprehension costs a call, as much as creating the message
        messages = [Message(address, first, number, body_bytes, largest, persistent)]
    else:
        messages = [Message(address, content, number, body_bytes, largest, persistent) for content in contents]
    whole_bytes = body_bytes * count
    long_bytes = header_bytes_of(messages) if header_bytes > LONG_HEADER_SIZE or largest_frame else 0
    sizes = channel.statistics.sizes
    if not sizes.low < body_bytes <= sizes.high:
        sizes.turn(body_bytes)
    sizes.run += count
    sizes.total_bytes += whole_bytes
    if whole_bytes + long_bytes > route.long_bytes or long_bytes > route.read_bytes:
        queues = None
    alone = checked.special or channel.transaction is not None or (route.markers and route.needs_message(raw))
    if route.reads_headers and not alone:
        targets = route.targets or ()
        channel.connection.spent += cost_of_reading(messages, targets) * len(targets)
    if queues is not None and ledger.dead_letters.full_outboxes and not channel.all_or_none:
        queues = None if must_wait(ledger, queues) else queues
    if queues is not None and not alone:
        result = enqueue(channel, route, messages, whole_bytes, persistent, queues, route.mandatory, True, long_bytes)
        if channel.confirms is not None:
            channel.expect_confirms(channel.confirms, count, result)
    elif not alone and route.targets is not None and not channel.all_or_none:
        steps = enqueue_in_steps(channel, route, messages, route.targets, route.mandatory, ())
        do_in_steps(channel, messages, steps, in_slices)
    else:
        published = 0
        for message in messages:
            published += 1
            publish_one(channel, route, message, in_slices)
            if in_slices and (channel.connection.suspended or channel.connection.spent > ENQUEUE_COST):
                break
        sizes.run -= count - published
        sizes.total_bytes -= body_bytes * (count - published)
        return published
    return count


def at_once(channel: Channel, route: Route, contents: list[bytes]) -> list[bytes]:
    """Return those of the first contents that are published by this route in one step."""
    most = route.at_once
    if channel.vhost.ledger.exceeded and route.queues is not None:  # each queue may store a copy
        most = min(most, ENQUEUE_COST // (PAGE_COST * route.cost) + 1)
    return contents[:most] if len(contents) > most else contents


def admit_short(channel: Channel, routes: Iterable[Route], contents: list[bytes]) -> int:
    """Return how many of the first contents can be published without a job, or raise Postponed if that is none."""
    count = count_short(channel, routes, contents)
    if not count:
        channel.await_publishes()
    return count


def count_short(channel: Channel, routes: Iterable[Route], contents: list[bytes]) -> int:
    """Return how many of the first contents can be published without a job."""
    connection = channel.connection
    end = connection.spent + SEARCH_COST
    count = whole_bytes = header_bytes = 0
    for route, content in zip(routes, contents, strict=False):
        whole_bytes += len(content)
        header_bytes += _sizes(content, SIZE_AT)[0]
        alone = whole_bytes > route.long_bytes or header_bytes > route.read_bytes
        if count and alone or connection.spent > end or may_take_long(channel, route, content, alone):
            break
        count += 1
    return count


def may_take_long(channel: Channel, route: Route, content: bytes, alone: bool) -> bool:
    """Return whether a job may have to finish the publish of a content, which is `alone` if it is long.

    Errors are left to the publish.
    """
    targets = route.queues
    in_transaction = channel.transaction is not None  # only the search can be long, and later the commit
    raw = properties_of(content)
    if targets is None and route.targets is not None and not in_transaction or route.needs_message(raw):
        return True
    checked = channel.checked
    keys: tuple[str, ...] = (route.address.routing_key,)
    try:
        if raw != checked.raw:
            checked.check(raw)
        headers = properties.headers(raw) if checked.special and checked.ttl_ms == UNKNOWN else None
        if headers is not None:
            channel.connection.spent += headers.read_cost
            keys += copy_keys(headers, "CC") + copy_keys(headers, "BCC")
    except AMQPError:
        return False
    if len(keys) > 1 or route.targets is None:
        search = channel.vhost.search(route.exchange, keys, None)
        complete = search.run(SEARCH_COST)
        channel.connection.spent += search.cost
        targets = search.targets
        if (
            not (complete and search.stable)
            or any(marker in raw for marker in search.markers)
            or any(target.internal for target in targets)
        ):
            return True
    alone = alone or checked.special or route.queues is None
    if in_transaction or not targets:
        return False
    few = are_few(targets, Message(route.address, content, 0, 0, 0, False), channel.vhost.ledger)
    return must_wait(channel.vhost.ledger, targets) or alone and not few


def properties_of(content: bytes) -> bytes:
    """Return the properties of a content, as they are encoded."""
    return content[PROPERTIES_AT : FRAME_HEAD + _sizes(content, SIZE_AT)[0]]


def too_long(channel: Channel, publishes: Publishes) -> AMQPError:
    """Return the error for a publish with too large a body, or the one for `immediate`, which has precedence."""
    if publishes.methods[0][-2] & IMMEDIATE:  # the flags are the last byte before the frame end
        return NotSupported("immediate=true")
    return body_too_long(channel, publishes.too_long)


def body_too_long(channel: Channel, body_bytes: int) -> PreconditionFailed:
    """Return the error for a body above the limit."""
    limit = channel.connection.settings.max_message_size
    return PreconditionFailed(f"message size {body_bytes} is larger than configured max size {limit}")


def publish_mixed(channel: Channel, publishes: Publishes) -> None:
    """Publish contents by the route of each method; raises as `publish`. HOT: bench K.

    The publishes before a refused one are published. The rest is left where they cost more than ENQUEUE_COST. Unless
    their routes are `resolved`, a job first searches those that lead to very many queues, so that their messages are
    enqueued together.
    """
    methods, contents = publishes.methods, publishes.contents
    cached = channel.routes
    connection = channel.connection
    limit = ENQUEUE_COST // PAGE_COST if channel.vhost.ledger.exceeded else ENQUEUE_COST
    refused: AMQPError | None = None
    routes: list[Route] = []
    if len(methods) * cached.largest_cost <= limit:
        with suppress(KeyError):
            routes = list(map(cached.__getitem__, methods))
    if not routes:
        routes, refused = resolve_within(channel, methods, limit)
    if channel.unfinished.full and routes:
        count = admit_short(channel, routes, contents)
        if count < len(routes):
            routes, refused = routes[:count], None
    elif len(routes) < len(methods) and not publishes.resolved and refused is None and routes[-1].queues is None:
        connection.deferred = publishes
        publishes.resolved = True
        channel.start_job("routes", resolve_ahead(channel, methods))
        return
    published = publish_varied(channel, routes, contents, in_slices=True)
    if refused is not None and published == len(routes):
        raise refused
    if published < len(methods):
        connection.deferred = publishes.after(published)


class RouteRun:
    """Messages with equal routes, in order. `places` counts them in the order in which the runs were published."""

    __slots__ = ("route", "queues", "exchange", "mandatory", "messages", "body_bytes", "persistent", "places")

    def __init__(self, route: Route, queues: Targets) -> None:
        self.route = route
        self.queues = queues
        self.exchange = route.exchange
        self.mandatory = route.mandatory
        self.messages: list[Message] = []
        self.body_bytes = 0
        self.persistent = False
        self.places: list[int] = []


def publish_varied(channel: Channel, routes: Iterable[Route], contents: list[bytes], in_slices: bool = False) -> int:
    """Publish contents whose routes or headers differ, each with one body frame at most; return how many.

    Messages are enqueued in runs. Runs to one queue each are gathered, whatever the order of their messages: only the
    order within a queue counts. With `in_slices` the rest is left where the connection has to wait for the journal, or
    publishes that are routed one by one cost more than ENQUEUE_COST. HOT: bench K, L.
    """
    connection = channel.connection
    published = place = 0
    number = channel.number
    in_transaction = channel.transaction is not None
    all_or_none = channel.all_or_none
    logged = channel.vhost.traffic_log is not None  # in the order of the messages, which their confirms have too
    gather = not (logged or connection.node.journal.room() != ROOM or channel.vhost.ledger.dead_letters.full_outboxes)
    checked = channel.checked
    sizes = channel.statistics.sizes
    header, raw = NO_HEADER, b""
    body_bytes = largest = 0
    persistent = alone = some_long = False
    runs: dict[Targets, RouteRun] = {}
    run: RouteRun | None = None
    try:
        for route, content in zip(routes, contents, strict=False):
            if not content.startswith(header):
                header_bytes, body_bytes = _sizes(content, SIZE_AT)
                header_end = FRAME_HEAD + header_bytes
                header = content[:header_end]
                raw = content[PROPERTIES_AT:header_end]
                if raw != checked.raw:
                    checked.check(raw)
                persistent = checked.persistent
                alone = in_transaction or checked.special
                largest = (header_bytes if header_bytes > body_bytes else body_bytes) + FRAME_OVERHEAD
                if header_bytes > LONG_HEADER_SIZE:
                    some_long = True
            if not sizes.low < body_bytes <= sizes.high:
                sizes.turn(body_bytes)
            sizes.run += 1
            sizes.total_bytes += body_bytes
            message = Message(route.address, content, number, body_bytes, largest, persistent)
            queues = route.queues
            if queues is None and not all_or_none:
                queues = route.targets
            if (
                alone
                or not queues
                and (queues is None or route.mandatory)  # the earlier ones are confirmed before this one is returned
                or (route.markers and route.needs_message(raw))
            ):
                if runs:
                    runs, gathered, run, place = {}, runs, None, 0  # so that `finally` does not repeat them
                    enqueue_runs(channel, gathered, in_slices, some_long)
                    if in_slices and (connection.suspended or connection.spent > ENQUEUE_COST):
                        return published
                published += 1
                publish_one(channel, route, message, in_slices)
                if in_slices and (connection.suspended or connection.spent > ENQUEUE_COST):
                    return published
                if all_or_none and channel.confirms is not None and channel.confirms.has_refusals:
                    return published  # no queue gets one behind it
                continue
            if run is None or (
                route is not run.route
                and (queues is not run.queues or run.exchange is not route.exchange or run.mandatory != route.mandatory)
            ):
                run = runs.get(queues)
                if run is None or run.exchange is not route.exchange or run.mandatory is not route.mandatory:
                    if runs and not (run is None and gather and len(queues) < 2 and len(next(iter(runs))) < 2):
                        runs, gathered, place = {}, runs, 0
                        enqueue_runs(channel, gathered, in_slices, some_long)
                        if in_slices and (connection.suspended or connection.spent > ENQUEUE_COST):
                            return published
                    runs[queues] = run = RouteRun(route, queues)
            published += 1
            run.messages.append(message)
            run.body_bytes += body_bytes
            if persistent:
                run.persistent = True
            run.places.append(place)
            place += 1
    finally:  # the messages before a refused one too
        if runs:
            enqueue_runs(channel, runs, in_slices, some_long)
    return published


def enqueue_runs(channel: Channel, runs: dict[Targets, RouteRun], in_slices: bool, some_long: bool) -> None:
    """Enqueue runs by the targets of their routes, and register all their messages for confirms. HOT: bench K, L.

    A run to more than FEW queues is the only one, and is enqueued in steps. `some_long` says whether some of the
    messages may have long headers.
    """
    if len(runs) == 1:
        [run] = runs.values()
        header_bytes = header_bytes_of(run.messages) if some_long else 0
        route = run.route
        long = run.body_bytes + header_bytes > route.long_bytes or header_bytes > route.read_bytes
        waits = not channel.all_or_none and must_wait(channel.vhost.ledger, run.queues)
        if long or len(run.queues) > FEW or waits:
            steps = enqueue_in_steps(channel, route, run.messages, run.queues, run.mandatory, ())
            do_in_steps(channel, run.messages, steps, in_slices)
            return
    count = 0
    stored = False
    refused: set[int] = set()
    for queues, run in runs.items():
        if run.route.reads_headers:
            channel.connection.spent += cost_of_reading(run.messages, queues) * len(queues)
        header_bytes = header_bytes_of(run.messages) if some_long else 0
        result = enqueue(
            channel, run.route, run.messages, run.body_bytes, run.persistent, queues, run.mandatory, False, header_bytes
        )
        count += len(run.messages)
        stored = stored or result.stored
        if result.refused:
            refused.update(run.places[index] for index in result.refused)
    if channel.confirms is not None:
        channel.expect_confirms(channel.confirms, count, EnqueueResult(stored, frozenset(refused)))


def resolve_within(channel: Channel, methods: list[bytes], limit: int) -> tuple[list[Route], AMQPError | None]:
    """Return the routes of the first methods, which together reach the cost `limit`, and the error that ended them."""
    connection = channel.connection
    routes: list[Route] = []
    cost = 0
    for method in methods:
        route = channel.routes.get(method)
        if route is None:
            spent = connection.spent
            try:
                route = resolve(channel, method)
            except AMQPError as error:
                return routes, error
            cost += connection.spent - spent
        routes.append(route)
        cost += route.cost
        if cost > limit:
            break
    return routes, None


def resolve_ahead(channel: Channel, methods: list[bytes]) -> Job:
    """Find and cache the first routes, as many as fill half of the cache. An error is left to its publish."""
    connection = channel.connection
    added_bytes = 0
    with suppress(AMQPError):
        for method in methods:
            route = channel.routes.get(method) or resolve(channel, method)
            yield connection.spent
            connection.spent = 0  # the scheduler has charged it
            yield from complete_search(channel, route)
            added_bytes += size_of(route)
            if added_bytes > LIMIT_BYTES // 2:
                return


def complete_search(channel: Channel, route: Route) -> Job:
    """Search the rest of the targets of a cached route. Another publish may complete it meanwhile."""
    while route.search is not None:
        if not route.search.run(SEARCH_COST):
            yield SEARCH_COST
        else:
            channel.routes.complete(route)


def resolve(channel: Channel, method: bytes) -> Route:
    """Decode basic.publish (its payload and frame end), find its route and cache it.

    Raises AccessRefused (403), NotFound (404), SyntaxFault (502), NotSupported (540).
    """
    try:
        exchange_end = IDS + 1 + method[IDS]
        key_end = exchange_end + 1 + method[exchange_end]
        flags = method[key_end]
    except IndexError:
        raise SyntaxFault("method arguments end within a string") from None
    if len(method) != key_end + 2:  # flags and frame end
        raise SyntaxFault("method arguments are shorter or longer than the method has")
    name = method[IDS + 1 : exchange_end].decode("utf-8", "surrogateescape")
    key = method[exchange_end + 1 : key_end].decode("utf-8", "surrogateescape")
    if flags & IMMEDIATE:
        raise NotSupported("immediate=true")
    route = find_route(channel, name, key, bool(flags & MANDATORY))
    remember_route(channel, method, route)
    return route


def remember_route(channel: Channel, key: RouteKey, route: Route) -> None:
    """Cache a route for the user's later publishes with the same key, until the topology changes."""
    channel.routes.remember(key, route)
    if not route.exchange.name:
        for queue in route.targets or ():
            if isinstance(queue, ReplyQueue):
                queue.remember_route(channel.routes, key)


def find_route(channel: Channel, name: str, key: str, mandatory: bool) -> Route:
    """Check the user's permissions, and return the route of publishes to an exchange with a routing key.

    Raises AccessRefused (403), NotFound (404).
    """
    channel.check("write", "exchange", name)
    exchange = channel.vhost.exchange(name)
    if exchange.internal:
        raise AccessRefused(f"cannot publish to internal {exchange}")
    channel.check_topic("write", name, key)
    search = channel.vhost.search(exchange, (key,), None)
    complete = search.run(ENQUEUE_COST)
    channel.connection.spent += search.cost
    by_key = search.stable and channel.vhost.tracer is None  # a tracer reads each message
    targets = search.targets if by_key and complete else None
    unfinished = search if by_key and not complete else None
    return Route(RoutingAddress(name, key), exchange, targets, mandatory, frozenset(search.markers), search=unfinished)


def publish_one(channel: Channel, route: Route, message: Message, in_slices: bool = False) -> None:
    """Publish one message by itself: special properties, routing by headers, a transaction or very many queues
    require it.

    With `in_slices` a job does what costs more than ENQUEUE_COST; the connection is suspended until it is done.
    """
    keys: tuple[str, ...] = (route.address.routing_key,)
    if channel.checked.special:
        ttl_ms = channel.checked.ttl_ms
        if ttl_ms == UNKNOWN:
            message, keys = apply_special_properties(channel, message)
        elif ttl_ms != NO_TTL:
            message.state = MessageState(ttl_ms)
    queues = route.targets
    few = (
        queues is not None
        and are_few(queues, message, channel.vhost.ledger)
        and not must_wait(channel.vhost.ledger, queues)
    )
    if queues is not None and few and len(keys) == 1 and not route.markers:
        if route.reads_headers and channel.transaction is None:
            channel.connection.spent += cost_of_reading([message], queues) * len(queues)
        publish_to(channel, route, message, keys, queues, ())
        channel.connection.spent += ALONE_COST
        return
    do_in_steps(channel, [message], publish_in_steps(channel, route, message, keys), in_slices)
    channel.connection.spent += SEARCHED_COST


def do_in_steps(channel: Channel, messages: list[Message], steps: Iterator[int], in_slices: bool) -> None:
    """Do the steps of a publish of these messages. With `in_slices` a job does what costs more than ENQUEUE_COST.

    While no more jobs may begin, only short publishes come here (`count_short`), which are done at once.
    """
    connection = channel.connection
    for cost in steps:
        connection.spent += cost
        if in_slices and connection.spent > ENQUEUE_COST and not channel.unfinished.full:
            content_bytes = frame_bytes(messages)
            channel.unfinished.begin(content_bytes)
            channel.start_job("publish", finish_publish(channel, steps, content_bytes), appends=True)
            return


def finish_publish(channel: Channel, steps: Job, content_bytes: int) -> Job:
    """Do the rest of a publish, which counts as unfinished, as a job. An error closes the channel."""
    try:
        for cost in chain([channel.connection.spent], steps):
            yield cost
            channel.connection.spent = 0  # the scheduler has charged it
    except AMQPError as error:
        if not channel.closing:
            channel.close(error.of_method(PUBLISH))
    finally:
        channel.unfinished.end(content_bytes)


def publish_in_steps(channel: Channel, route: Route, message: Message, keys: tuple[str, ...]) -> Job:
    """Publish one message by these keys, in steps if its search or its queues are long.

    A message whose channel ends before it is in any queue is dropped.
    """
    queues = route.targets
    if route.search is not None:
        yield from complete_search(channel, route)
        queues = route.targets and existing(route.targets)
    by_message = route.markers and route.needs_message(message.property_bytes)
    recorders: Recorders = ()
    on_full = channel.on_full
    deferred: Search | None = None
    if route.direct:
        if by_message:
            message.state = message.state or MessageState()
            message.state.dead_lettered = BY_QUEUE
    elif queues is None or len(keys) > 1 or by_message:
        defers = channel.all_or_none or on_full is not None
        search = channel.vhost.search(route.exchange, keys, message, defers=defers, published=True)
        yield from search.in_steps()
        deferred = search if defers else None
        await_journal_for(channel, search)
        queues, recorders = existing(search.targets), search.recorders
    assert queues is not None, "a direct route has targets"
    if channel.transaction is None:
        yield len(queues) >> DESTINATIONS_SHIFT  # that are looked at one by one
        yield cost_of_reading([message], queues) * len(queues[:FEW])  # more are enqueued in steps
    full = on_full is not None and (yield from one_is_full(channel, queues))
    if channel.closing:
        return
    if on_full is not None and full:
        on_full()
    elif channel.transaction is not None:
        publish_to(channel, route, message, keys, queues, recorders)
    elif (not channel.all_or_none or (yield from sinks_have_room(channel, queues, message))) and admits(
        channel, message, keys, queues
    ):
        if deferred is not None:
            yield deferred.keep()
            await_journal_for(channel, deferred)
        queues = yield from accepted_in_steps(queues, message)
        yield from enqueue_in_steps(channel, route, [message], queues, route.mandatory, recorders)


def sinks_have_room(channel: Channel, targets: Targets, message: Message) -> Generator[int, None, bool]:
    """Refuse a message that one of the sinks would refuse, because the publisher repeats it, and return False."""
    for target in targets:
        if target.internal and (steps := target.has_room_in_steps(message)) is not None and not (yield from steps):
            refuse(channel)
            return False
    return True


def await_journal_for(channel: Channel, search: Search) -> None:
    """Read no more while the journal is behind, if it has the message for exchanges on its way."""
    if search.stored and channel.connection.node.journal.room() == BEHIND:
        channel.connection.suspend_for_journal()


def accepted_in_steps(queues: Targets, message: Message) -> Generator[int, None, Targets]:
    """Have targets accept a message that do so in steps; return all targets, with results in place of these."""
    accepted: dict[RouteTarget, RouteTarget] = {}
    for index, target in enumerate(queues, 1):
        if target.internal and not target.deleted and (steps := target.accept_in_steps([message])) is not None:
            accepted[target] = Accepted(target, (yield from steps))
        if not index % LOOKS:
            yield LOOKS >> DESTINATIONS_SHIFT
    return tuple([accepted.get(target, target) for target in queues]) if accepted else queues


def publish_to(
    channel: Channel, route: Route, message: Message, keys: tuple[str, ...], queues: Targets, recorders: Recorders
) -> None:
    """Publish one message to these queues, or add it to the transaction."""
    if not admits(channel, message, keys, queues):
        return
    if channel.transaction is not None:
        channel.connection.spent += len(queues) >> DESTINATIONS_SHIFT
        channel.transaction.publish(route, message, queues, recorders)
    else:
        enqueue_one(channel, route, message, queues, route.mandatory, recorders)


def admits(channel: Channel, message: Message, keys: tuple[str, ...], queues: Targets) -> bool:
    """Trace a message and return True, or refuse it if a queue would refuse it and the publisher repeats it."""
    confirms = channel.confirms
    if (
        channel.all_or_none
        and confirms is not None
        and (confirms.has_refusals or not all(queue.has_room(message.body_bytes) for queue in queues))
    ):
        refuse(channel)
        return False
    if channel.vhost.tracer is not None:
        channel.vhost.tracer.published(channel.origin, message, keys, queues)
        channel.connection.spent += TRACED_COST
    return True


def refuse(channel: Channel) -> None:
    """Refuse a publish before any queue has it, in confirm mode."""
    if channel.confirms is not None:
        channel.confirms.refused(channel.connection.node.journal.durable)


def enqueue_one(
    channel: Channel, route: Route, message: Message, queues: Targets, mandatory: bool, recorders: Recorders
) -> bool:
    """Enqueue one message, and pass it to the few recorders if all queues took it; return whether they did."""
    result = enqueue(channel, route, [message], message.body_bytes, message.persistent, queues, mandatory)
    if len(queues) > 1 and looks_at_each([message], queues):
        channel.connection.spent += (PER_MESSAGE_COST - 1) * len(queues)
    accepted = finish(channel, 1, result)
    if accepted and queues:
        channel.connection.spent += sum(record(recorders, message))
    return accepted


def routed_again(
    channel: Channel, route: Route, message: Message, queues: Targets, recorders: Recorders
) -> Generator[int, None, tuple[Targets, Recorders]]:
    """Return the targets and recorders of a message, which others replace if a duplicate was accepted meanwhile."""
    while (yield from find_duplicate(recorders, message)):
        search = channel.vhost.search(route.exchange, routing_keys(message, None), message, peeks=True, published=True)
        yield from search.in_steps()
        accepted = {queue.sink: queue for queue in queues if isinstance(queue, Accepted)}
        queues = (*accepted.values(), *[target for target in search.targets if target not in accepted])
        recorders = search.recorders
        yield from await_room(channel, queues[:FEW])
    return queues, recorders


def is_dropped(queues: Targets) -> bool:
    """Return whether a message with these targets is a duplicate, which nothing takes."""
    return len(queues) > 0 and all(isinstance(queue, DiscardSink) for queue in queues)


def enqueue_in_steps(
    channel: Channel, route: Route, messages: list[Message], queues: Targets, mandatory: bool, recorders: Recorders
) -> Generator[int, None, bool]:
    """Enqueue messages as `enqueue_one`, but in steps if there are very many queues or recorders.

    All of them are enqueued at some queues, then at the next. Each step stores persistent messages again, and may read
    their headers again, so that only few of these are enqueued together. With recorders there is one message, which is
    routed again if a duplicate of it was accepted meanwhile.
    """
    few = len(messages) == 1 and len(recorders) <= FEW and are_few(queues, messages[0], channel.vhost.ledger)
    if few or recorders:
        yield from await_room(channel, queues[:FEW])
    if recorders and (channel.busy or not few):
        queues, recorders = yield from routed_again(channel, route, messages[0], queues, recorders)
        if is_dropped(queues):
            return finish(channel, 1, DURABLE)
        few = len(recorders) <= FEW and are_few(queues, messages[0], channel.vhost.ledger)
    if few:
        return enqueue_one(channel, route, messages[0], existing(queues), mandatory, recorders)
    together = len(messages)
    if together > SHARED and (any(message.persistent for message in messages) or cost_of_reading(messages, queues)):
        together = SHARED
    taken = True
    for first in range(0, len(messages), together):
        if first:
            yield ENQUEUE_COST
        some = messages[first : first + together]
        body_bytes, persistent = total_bytes(some), any(message.persistent for message in some)
        each = cost_of_each(some, queues)
        stored_bytes = frame_bytes(some)
        if channel.vhost.ledger.exceeded:
            each = max(each, PAGE_COST * len(some) + (stored_bytes >> STORE_SHIFT))
        some = channel.vhost.ledger.share(some)
        parts = in_parts(queues, each, stored_bytes, ENQUEUE_COST)
        first_part = next(parts, ())
        yield from await_room(channel, first_part, each * len(first_part))
        there = existing(first_part)
        exist = len(there) > 0 or len(existing(queues)) > 0
        result = enqueue(channel, route, some, body_bytes, persistent, there, mandatory and not exist)
        for part in parts:
            yield max(ENQUEUE_COST, stored_bytes >> STORE_SHIFT)
            yield from await_room(channel, part)
            more = enqueue_more(channel, route, some, body_bytes, persistent, part)
            result = EnqueueResult(result.stored or more.stored, result.refused | more.refused)
        accepted = finish(channel, len(some), result)
        if accepted and exist:
            yield from record(recorders, some[0])
        taken = taken and accepted
    return taken


def one_is_full(channel: Channel, queues: Targets) -> Generator[int, None, bool]:
    """Return whether one of the queues has rejected too many messages; look at them in steps."""
    for at in range(0, len(queues), LOOKS):
        some = queues[at : at + LOOKS]
        if must_wait(channel.vhost.ledger, some):
            return True
        yield len(some) >> DESTINATIONS_SHIFT
    return False


def some_deleted(queues: Targets) -> Generator[int, None, bool]:
    """Return whether one of the queues was deleted; look at them in steps. A reply queue may be deleted at any time."""
    for at in range(0, len(queues), LOOKS):
        if at:
            yield LOOKS >> DESTINATIONS_SHIFT
        if any(queue.deleted and not isinstance(queue, ReplyQueue) for queue in queues[at : at + LOOKS]):
            return True
    return False


def await_room(channel: Channel, queues: Targets, cost: int = PER_MESSAGE_COST) -> Job:
    """Wait as part of a job until none of the queues must not reject more messages; the next ones have this cost.

    A channel with `on_full` does not wait: it has looked at all of them before.
    """
    if channel.on_full is not None:
        return
    if not channel.busy and must_wait(channel.vhost.ledger, queues):
        yield TURN_COST + 1  # so that this becomes a job
    connection = channel.connection
    if channel.busy and must_wait(channel.vhost.ledger, queues):
        connection.waits_for_room = True
        connection.request_flush()  # so that the transport notices if the peer closes meanwhile
        yield from await_outboxes(connection.node.scheduler, queues)
        connection.node.scheduler.charge(cost)  # others that wait go on in the same turn


def finish(channel: Channel, count: int, result: EnqueueResult) -> bool:
    """Register enqueued messages to be confirmed; return whether all queues took them all."""
    if channel.confirms is not None:
        channel.expect_confirms(channel.confirms, count, result)
    return not result.refused


def are_few(queues: Targets, message: Message, ledger: Ledger) -> bool:
    """Return whether the message may be enqueued in all these queues in one step."""
    if len(queues) < 2:
        return True
    stored_bytes = len(message.frames)
    return (
        len(queues) <= FEW
        and (
            stored_bytes * len(queues) <= LONG_BYTES or stored_bytes * records_of(queues, ledger.exceeded) <= LONG_BYTES
        )
        and cost_of_reading([message], queues) * len(queues) <= ENQUEUE_COST
    )


def enqueue_more(
    channel: Channel, route: Route, messages: list[Message], body_bytes: int, persistent: bool, queues: Targets
) -> EnqueueResult:
    """Enqueue messages, which are counted and logged already, in more queues of their route."""
    queues = existing(queues)
    routed = len(messages) * len(queues)
    route.exchange.publish_out += routed
    channel.statistics.routed += routed
    if channel.rates is not None:
        channel.rates.routed(route.exchange, queues, len(messages))
    result = channel.vhost.enqueue(messages, body_bytes, persistent, queues, "", shared=True)
    for queue in queues:
        if not channel.closing and queue.congested() and isinstance(queue, Queue):
            channel.connection.throttle(queue)
    return result


def enqueue(
    channel: Channel,
    route: Route,
    messages: list[Message],
    body_bytes: int,
    persistent: bool,
    queues: Targets,
    mandatory: bool,
    alike: bool = False,
    header_bytes: int = -1,
) -> EnqueueResult:
    """Enqueue messages, and send unroutable mandatory ones back; confirms are left to the caller. HOT: bench A-M.

    `body_bytes` is the sum of their bodies, `persistent` whether any of them is, `alike` whether all have the same
    header, `header_bytes` the sum of their long headers, or -1 if unknown.
    """
    log = channel.vhost.traffic_log
    if log is not None:
        confirms = channel.confirms
        number = confirms.next if confirms is not None else COMMIT if channel.transaction is not None else 0
        log.publishing(channel.origin, messages, alike, number)
    connection = channel.connection
    count = len(messages)
    statistics, exchange = channel.statistics, route.exchange
    exchange.publish_in += count
    channel.publishing.publish += count
    statistics.publishing.publish += count
    if channel.rates is not None:
        channel.rates.published(exchange, queues, count, mandatory)
    if queues:
        routed = count * len(queues)
        exchange.publish_out += routed
        statistics.routed += routed
        if len(queues) > 1:
            exceeded = channel.vhost.ledger.exceeded
            connection.spent += PAGE_COST * routed if exceeded else len(queues) + routed // SHARED
    else:
        if log is not None:
            log.published((), mandatory)
        return_or_drop(channel, messages, mandatory)
        return ACCEPTED
    receipt = channel.vhost.enqueue(messages, body_bytes, persistent, queues, "", False, header_bytes)
    if log is not None:
        log.published(queues)
    ledger = channel.vhost.ledger
    if (receipt.stored or ledger.paged_out) and connection.node.journal.room() == BEHIND:
        connection.suspend_for_journal()
    ledger.paged_out = False
    for queue in queues:
        if queue.congested() and isinstance(queue, Queue):
            connection.throttle(queue)
    return receipt


def return_or_drop(channel: Channel, messages: list[Message], mandatory: bool) -> None:
    """Return unroutable messages to the publisher if they are mandatory, or drop them."""
    totals = channel.statistics.publishing
    if mandatory:
        channel.publishing.return_unroutable += len(messages)
        totals.return_unroutable += len(messages)
        channel.send_confirms()  # of earlier publishes: clients count on the order
        for message in messages:
            method = method_encoder.basic_return(channel.number, 312, "NO_ROUTE", message.address.encoded)
            channel.send(method + channel.frames_of(message))
    else:
        channel.publishing.drop_unroutable += len(messages)
        totals.drop_unroutable += len(messages)
