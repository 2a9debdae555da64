"""Acknowledgements: basic.ack, nack, reject and recover, which settle deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pamqp import commands

from ...amqp.errors import NotSupported
from ...amqp.field_table import Table
from ...core.jobs.scheduler import SLICE
from ...core.messages.message import Message
from ...core.queues.message_log import CHANNEL, NACK, RECOVER, REJECT
from ...core.queues.queue import Queue
from ...wire import method_encoder
from ..unacked import Settlement, Unacked, unknown_tag

if TYPE_CHECKING:
    from ..channel import Channel
    from ..consumer import ChannelConsumer

TOGETHER: Final = 5_000  # deliveries that are settled at once if none is copied; more of them become a job
COST: Final = 2  # of one settlement beside copies, in the scheduler's units
STEP_COST: Final = 2_000  # of the settlements in one step of a job
ACK_SHIFT: Final = 1  # to acknowledge 2 deliveries together costs 1
LOOK_COST: Final = 500  # of collecting the queues of TOGETHER deliveries
PAUSE_SHIFT: Final = 3  # to pause 8 queues costs 1

Run = tuple[Settlement, list[Unacked]]
"""Consecutive deliveries that are settled in the same way."""


def ack(channel: Channel, tags: list[int], multiple: bool) -> None:
    """Serve basic.ack. With `multiple` there is one tag, and all deliveries up to it are acknowledged.

    Raises PreconditionFailed (406) for a tag that is not outstanding. HOT: bench B, D, I, L.
    """
    if multiple:
        tags = channel.unacked.tags_up_to(tags[0])
        if len(tags) > TOGETHER:
            settle(channel, tags, Settlement.ACK)
            return
        channel.connection.spent += len(tags) >> ACK_SHIFT
    if channel.transaction is not None:
        settle(channel, tags, Settlement.ACK)
        return
    entries = channel.unacked.entries
    consumed = 0
    run: list[Message] = []  # of one queue, and one consumer
    of: Queue | None = None
    by: ChannelConsumer | None = None
    try:
        for tag in tags:
            entry = entries.pop(tag, None)
            if entry is None:
                raise unknown_tag(tag)
            queue, consumer, _, message = entry
            if queue is not of or consumer is not by:
                if of is not None:
                    release(channel, of, run, by)
                of, by, run = queue, consumer, []
            run.append(message)
            if consumer is not None:
                consumer.settled()
                consumed += consumer.shares
    finally:  # the deliveries before an unknown tag too
        if of is not None:
            release(channel, of, run, by)
    if consumed:
        channel.shared_prefetch.on_settled(consumed)


def release(channel: Channel, queue: Queue, messages: list[Message], consumer: ChannelConsumer | None) -> None:
    """Count acknowledged messages of one queue and one consumer, and drop them. HOT: bench B, D, I, L."""
    channel.delivering.acked(len(messages))
    if channel.rates is not None:
        channel.rates.acked(queue, len(messages))
    if channel.vhost.message_log is not None:
        channel.vhost.message_log.acked(channel.origin, consumer_tag(consumer), queue, messages)
    queue.settle(messages)


def nack(channel: Channel, method: commands.Basic.Nack, arguments: Table) -> None:
    """Serve basic.nack. Raises PreconditionFailed (406) for a tag that is not outstanding."""
    tag = method.delivery_tag or 0
    tags = channel.unacked.tags_up_to(tag) if method.multiple else [tag]
    settle(channel, tags, Settlement.NACK if method.requeue else Settlement.REJECT)


def reject(channel: Channel, method: commands.Basic.Reject, arguments: Table) -> None:
    """Serve basic.reject. Raises PreconditionFailed (406) for a tag that is not outstanding."""
    settle(channel, [method.delivery_tag or 0], Settlement.RETURN if method.requeue else Settlement.REJECT)


def recover(channel: Channel, method: commands.Basic.Recover, arguments: Table) -> None:
    """Serve basic.recover. Raises NotSupported (540) without `requeue`."""
    recover_all(channel, bool(method.requeue))
    channel.send_after_job(method_encoder.method(channel.number, method_encoder.RECOVER_OK))


def recover_async(channel: Channel, method: commands.Basic.RecoverAsync, arguments: Table) -> None:
    """Serve basic.recover-async. Raises NotSupported (540) without `requeue`."""
    recover_all(channel, bool(method.requeue))


def recover_all(channel: Channel, requeue: bool) -> None:
    """Requeue all unsettled deliveries. Raises NotSupported (540) without `requeue`."""
    if not requeue:
        raise NotSupported("requeue=false")
    apply_settlements(channel, [(Settlement.RETURN, channel.unacked.pop_all())], RECOVER)


def settle(channel: Channel, tags: list[int], settlement: Settlement) -> None:
    """Settle deliveries, or add them to the transaction of the channel.

    All of them are requeued before any is delivered again, so they keep their order. Raises PreconditionFailed (406)
    for a tag that is not outstanding.
    """
    transaction = channel.transaction
    if transaction is not None and len(tags) > TOGETHER:
        channel.start_job("settlements", transaction.settle_many(channel, tags, settlement))
    elif transaction is not None:
        for tag in tags:
            transaction.settle(tag, channel.unacked.pop(tag), settlement)
        channel.connection.spent += len(tags)
    elif TOGETHER < len(tags) < len(channel.unacked):
        channel.start_job("settlements", pop_and_settle(channel, tags, settlement))
    else:
        apply_settlements(channel, [(settlement, channel.unacked.pop_many(tags))])


def pop_and_settle(channel: Channel, tags: list[int], settlement: Settlement) -> Iterator[int]:
    """Remove deliveries from `unacked` and settle them, as a job. The end of the channel may requeue some meanwhile."""
    deliveries: list[Unacked] = []
    entries = channel.unacked.entries
    tags.reverse()
    while tags:
        for tag in tags[: -SLICE - 1 : -1]:
            delivery = entries.pop(tag, None)
            if delivery is not None:
                deliveries.append(delivery)
        del tags[-SLICE:]
        yield SLICE
    yield from settle_in_steps(channel, [(settlement, deliveries)], "", lambda: None)


def requeue_in_steps(channel: Channel) -> Iterator[int]:
    """Requeue all unsettled deliveries of a closing channel, as part of the job that ends it."""
    return settle_in_steps(channel, [(channel.end_settlement, channel.unacked.pop_all())], CHANNEL, lambda: None)


def apply_settlements(channel: Channel, runs: list[Run], reason: str = "") -> None:
    """Settle deliveries that were removed from `unacked`; `reason` is empty if the consumer settles them itself.

    Those that cost more than TOGETHER become a job, and the connection is suspended until it is done.
    """
    cost = COST * sum(len(deliveries) for _, deliveries in runs)
    if cost <= COST * TOGETHER:
        cost += sum(cost_of_copies(settlement, deliveries) for settlement, deliveries in runs)
    if cost <= COST * TOGETHER:
        for settlement, deliveries in runs:
            apply_settlement(channel, settlement, deliveries, reason)
        channel.connection.spent += cost
    else:
        connection, finished = channel.connection, channel.begin_job()
        name = f"settlements of channel {channel.number} of connection {connection.name}"
        connection.node.scheduler.start(name, settle_in_steps(channel, runs, reason, finished), connection.job_failed)


def settle_in_steps(channel: Channel, runs: list[Run], reason: str, finished: Callable[[], None]) -> Iterator[int]:
    """Settle deliveries as a job. Queues deliver nothing until all messages are requeued, which keeps their order."""
    queues: set[Queue] = set()
    try:
        for settlement, deliveries in runs:
            for at in range(0, len(deliveries) if settlement.requeues else 0, TOGETHER):
                others = {delivery[0] for delivery in deliveries[at : at + TOGETHER]} - queues
                for queue in others:
                    queues.add(queue)
                    queue.pause()
                yield LOOK_COST + (len(others) >> PAUSE_SHIFT)
        for settlement, deliveries in runs:
            deliveries.reverse()
            while deliveries:  # this frees the messages slice by slice
                some, cost = take_slice(settlement, deliveries)
                apply_settlement(channel, settlement, some, reason)
                yield cost
        yield from resume_in_steps(queues)
    finally:
        for queue in queues:
            queue.resume()
    finished()


def resume_in_steps(queues: set[Queue]) -> Iterator[int]:
    """Resume paused queues as part of a job, and remove them from the set."""
    while queues:
        for _ in range(min(SLICE, len(queues))):
            queues.pop().resume()
        yield SLICE


def take_slice(settlement: Settlement, deliveries: list[Unacked]) -> tuple[list[Unacked], int]:
    """Remove from the end of a reversed list as many deliveries as are settled in one step; return also their cost."""
    some = deliveries[: -SLICE - 1 : -1]
    cost = COST * len(some)
    if settlement.requeues:
        for count, delivery in enumerate(some, 1):
            cost += cost_of_copies(settlement, (delivery,))
            if cost > STEP_COST:
                del some[count:]
    del deliveries[-len(some) :]
    return some, cost


def cost_of_copies(settlement: Settlement, deliveries: Iterable[Unacked]) -> int:
    """Return what the settlement costs beside COST for each, in the scheduler's units: copies with delivery counts."""
    if not settlement.requeues:
        return 0
    nacked = settlement is Settlement.NACK
    return sum([queue.cost_of_counting(message, nacked) for queue, _, _, message in deliveries])


def apply_settlement(channel: Channel, settlement: Settlement, deliveries: list[Unacked], reason: str) -> None:
    """Settle deliveries in one way."""
    consumed = 0
    acked, rejected, nacked = [settlement is one for one in (Settlement.ACK, Settlement.REJECT, Settlement.NACK)]
    log = channel.vhost.message_log if not acked and not reason else None
    reason = reason or (NACK if nacked else REJECT)
    for queue, consumer, position, message in deliveries:
        if log is not None:
            log.refused(channel.origin, consumer_tag(consumer), queue, message)
        if acked:
            release(channel, queue, [message], consumer)
        elif rejected:
            queue.reject(position, message)
        else:
            queue.requeue(position, message, nacked, reason)
        if consumer is not None:
            consumer.settled()
            consumed += consumer.shares
    if consumed:
        channel.shared_prefetch.on_settled(consumed)


def consumer_tag(consumer: ChannelConsumer | None) -> str:
    """Return the consumer's tag, or an empty text for basic.get."""
    return consumer.tag if consumer is not None else ""
