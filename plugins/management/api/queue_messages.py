"""Routes for the messages of a queue that RabbitMQ's HTTP API lacks: unacknowledged ones, and moves."""

import asyncio
import heapq
import time
from operator import itemgetter
from typing import Annotated

import msgspec

from warren.broker.core.messages.journal_port import BEHIND
from warren.broker.core.messages.message import ShedMessage
from warren.broker.session.channel import Channel
from warren.broker.session.unacked import Unacked

from ...http.auth import VHOST
from ...http.responses import HTTPError, Response, bad, existing, ok
from ...http.time_slices import Turn
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import channel_key
from ..views.detailed_rates import ChannelDetails, channel_details
from .queues import until_resumed

UNACKED_LIMIT, UNACKED = 500, 100  # deliveries of one response: the limit, and the default
EXAMINED = 20_000  # the oldest deliveries of each channel that are looked at
NOT_STORED = "the disk does not take it now"
MOVE_S = 0.1  # the time of one response
STORED_S = 10.0  # that a move waits for the disk
WAIT_S = 0.01  # until the queue can give the next message, for example after expired ones were dropped

LocatedDelivery = tuple[int, int, Channel, Unacked]
"""Position in the queue, delivery tag, channel, delivery."""


class Destination(msgspec.Struct):
    """A queue or an exchange; without a routing key messages keep their own."""

    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None


class MoveBody(msgspec.Struct):
    destination: Destination
    count: Annotated[int, msgspec.Meta(ge=1)]


class UnackedView(msgspec.Struct):
    """An unacknowledged message; the age, in seconds, is left out until it is known."""

    delivery_tag: int
    consumer_tag: str
    channel_details: ChannelDetails
    exchange: str
    routing_key: str
    payload_bytes: int
    age: float | msgspec.UnsetType = msgspec.UNSET


class MovedView(msgspec.Struct):
    """The numbers of messages that were moved and are left; `problem` is why no more can be moved, or empty."""

    moved: int
    messages_ready: int
    problem: str


@route("GET", VHOST, "/warren/queues/{vhost}/{queue}/unacked")
async def list_unacked(request: Request) -> Response[list[UnackedView]]:
    """List unacknowledged messages of a queue, the oldest first, with consumer, channel and age.

    It needs the right to read the queue, which may not be exclusive. The channel is that of a connection that the
    caller may see, or empty. `limit` is 500 at most. The age has the accuracy of the statistics interval. Of each
    channel the oldest 20,000 deliveries are examined.
    """
    queue = request.queue()
    text = request.query.get("limit", str(UNACKED))
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= UNACKED_LIMIT):
        raise bad(f"limit should be a number from 1 to {UNACKED_LIMIT}")
    limit = int(text)
    deliveries: list[LocatedDelivery] = []
    turn = Turn()
    with request.sliced_channel() as rights:
        rights.check_read(queue)
        for connection in request.host.connections():
            for channel in list(connection.channels.values()):
                of_queue = channel.unacked.of_queue(queue, EXAMINED, limit)
                deliveries += [(delivery[2], tag, channel, delivery) for tag, delivery in of_queue]
                if turn.is_over():
                    deliveries = heapq.nsmallest(limit, deliveries, key=itemgetter(0))
                    await request.wait(turn.next())
        views: list[UnackedView] = []
        for one in heapq.nsmallest(limit, deliveries, key=itemgetter(0)):
            if one[1] in one[2].unacked:
                views.append(unacked_view(request, one))
            if turn.is_over():
                await request.wait(turn.next())
        rights.check_read(queue)  # again, after the waits
    return ok(views)


def unacked_view(request: Request, located: LocatedDelivery) -> UnackedView:
    _, tag, channel, (queue, consumer, _, message) = located
    if isinstance(message, ShedMessage):
        message = next(iter(queue.journal.read([message.id])), None) or message
    connection = channel.connection
    now_ms = request.node.clock.now_ms()
    age_s = request.state.watermarks.age_s("channel", channel_key(connection, channel), channel, 0, tag, now_ms)
    return UnackedView(
        tag,
        consumer.tag if consumer is not None else "",
        channel_details(request.caller, channel),
        message.address.exchange,
        message.address.routing_key,
        message.body_bytes,
        msgspec.UNSET if age_s is None else age_s,
    )


@route("POST", VHOST, "/warren/queues/{vhost}/{queue}/move", durable=False)
async def move(request: Request, body: MoveBody) -> Response[MovedView]:
    """Move ready messages to another queue or an exchange, for a tenth of a second; `moved` says how many.

    Call it again until `moved` has added up to the wanted number, unless there is a `problem`: the destination is
    full, a message is not routed or would return to the queue, or the disk does not return the rest. Such messages stay
    in the queue.
    """
    queue = existing(request.path_vhost().queues.get(request.path["queue"]), "queue_not_found")
    exchange, routing_key = destination_of(request, body.destination)
    moved = 0
    problem = ""
    await until_resumed(request, queue)
    with request.sliced_channel() as channel:
        with request.host.acting(request.user.name):
            work = channel.move(queue.name, exchange, routing_key)
        until = time.monotonic() + MOVE_S
        unfinished = False
        while unfinished or moved < body.count and queue.ready and not problem:
            if not unfinished and request.node.journal.room() == BEHIND:  # other moves fill it as well
                if time.monotonic() > until + STORED_S or not await request.complete(is_stored(request)):
                    problem = NOT_STORED
                continue
            try:
                if not unfinished:
                    request.authorize()
            except HTTPError as error:
                if not moved:
                    raise
                problem = error.text
                break  # their number must not be lost
            with request.host.acting(request.user.name):
                step = work.step(body.count - moved)
            unfinished = step.unfinished
            moved += 0 if unfinished else step.moved
            problem = step.problem
            if step.moved and not await request.complete(is_stored(request)):
                problem = NOT_STORED
                break
            await request.complete(asyncio.sleep(0 if step.moved else WAIT_S))
            if time.monotonic() > until and not unfinished:
                break
    if not problem and moved < body.count and not queue.ready and queue.stored:
        problem = f"the disk does not return {queue.stored} messages now"
    return ok(MovedView(moved, queue.ready, problem))


async def is_stored(request: Request) -> bool:
    """Wait for STORED_S at most until the moved messages are on the disk; return whether they are."""
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + STORED_S):
            await request.complete(request.host.stored())
    except TimeoutError:
        return False
    return True


def destination_of(request: Request, destination: Destination) -> tuple[str, str | None]:
    """Return the exchange and the routing key of a move. Raises HTTPError (400, 404)."""
    if (destination.queue is None) == (destination.exchange is None):
        raise bad("destination should have either a queue or an exchange")
    if destination.queue is None:
        return destination.exchange or "", destination.routing_key
    if destination.queue == request.path["queue"]:
        raise bad("a queue cannot be moved to itself")
    existing(request.path_vhost().queues.get(destination.queue), "destination_queue_not_found")
    return "", destination.queue
