"""Acknowledgements: basic.ack, nack, reject and recover, which settle deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from pamqp import commands

from ...amqp.errors import AMQPError, NotSupported
from ...amqp.field_table import Table
from ...core.jobs.scheduler import AT_ONCE_COST, SLICE, UNLIMITED
from ...core.messages.journal_port import BEHIND
from ...core.messages.message import Message
from ...core.queues.queue import Queue
from ...core.queues.traffic_log import RECOVER
from ...wire import method_encoder
from ...wire.frame_reader import ACK, Acks
from ..channel import Channel
from ..consumer import ChannelConsumer
from ..settlements import (
    COST,
    POP_SHIFT,
    TOGETHER,
    Taken,
    apply_settlement,
    cost_of_copies,
    is_read_back,
    release,
    settle_all,
    settle_in_steps,
)
from ..unacked import ROW_COST, Settlement, unknown_tag

ACK_SHIFT: Final = 1  # to acknowledge 2 deliveries of the same queue and consumer together costs 1
RUN: Final = 2_000  # the most single acknowledgements that are served together


def serve(channel: Channel, acks: Acks) -> None:
    """Serve a run of basic.ack. HOT: bench B, D, I, L."""
    try:
        ack(channel, acks.tags, acks.multiple)
    except AMQPError as error:
        raise error.of_method(ACK) from None


def ack(channel: Channel, tags: list[int], multiple: bool) -> None:
    """Acknowledge deliveries. With `multiple` there is one tag, and all up to it are acknowledged.

    Raises PreconditionFailed (406) for a tag that is not outstanding. HOT: bench B, D, I, L.
    """
    connection = channel.connection
    if multiple:
        some = tags_up_to(channel, tags[0])
        if len(some) > TOGETHER or channel.unacked.shed is not None or channel.transaction is not None:
            settle(channel, some, Settlement.ACK)
            return
        tags = list(some)
    elif len(tags) > RUN:
        connection.deferred = Acks(channel.number, tags[RUN:], False)
        del tags[RUN:]
    entries = channel.unacked.entries
    if channel.transaction is not None:
        for tag in tags:
            connection.spent += channel.transaction.settle([(tag, channel.unacked.pop(tag))], Settlement.ACK)
        return
    before, changes, consumed, shed = len(entries), 0, 0, 0
    run: list[Message] = []  # of one queue, and one consumer
    of: Queue | None = None
    by: ChannelConsumer | None = None
    consumer: ChannelConsumer | None
    try:
        for tag in tags:
            entry = entries.pop(tag, None)
            if entry is None:
                part, entry = channel.unacked.pop_elsewhere(tag)
                if entry is None:
                    if multiple:
                        continue
                    raise unknown_tag(tag)
                if part is None:
                    shed += 1
                else:  # others of the run may be there, too
                    before += len(part) + 1 - len(entries)
                    entries = part
            queue, consumer, _, message = entry
            if queue is not of or consumer is not by:
                if of is not None:
                    release(channel, of, run, by)
                of, by, run = queue, consumer, []
                changes += 1
            run.append(message)
            if consumer is not None:
                consumer.settled()
                consumed += consumer.shares
    finally:  # the deliveries before an unknown tag too
        if of is not None:
            release(channel, of, run, by)
    connection.spent += ((before - len(entries)) >> ACK_SHIFT) + changes + shed * ROW_COST
    if consumed:
        channel.shared_prefetch.on_settled(consumed)


def tags_up_to(channel: Channel, tag: int) -> range:
    """Return tags, among them all that are outstanding up to this one, or all for tag 0.

    Raises PreconditionFailed (406) for a tag that is not outstanding.
    """
    unacked = channel.unacked
    if tag:
        unacked.check(tag)
    tags, cost = unacked.tags_up_to(tag or channel.delivery_tag)
    channel.connection.spent += cost
    return tags


def nack(channel: Channel, method: commands.Basic.Nack, arguments: Table) -> None:
    """Serve basic.nack. Raises PreconditionFailed (406) for a tag that is not outstanding."""
    settlement = Settlement.NACK if method.requeue else Settlement.REJECT
    if method.multiple:
        settle(channel, tags_up_to(channel, method.delivery_tag or 0), settlement)
    else:
        settle_one(channel, method.delivery_tag or 0, settlement)


def reject(channel: Channel, method: commands.Basic.Reject, arguments: Table) -> None:
    """Serve basic.reject. Raises PreconditionFailed (406) for a tag that is not outstanding."""
    settle_one(channel, method.delivery_tag or 0, Settlement.RETURN if method.requeue else Settlement.REJECT)


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
    channel.do("settlements", settle_all(channel, Settlement.RETURN, RECOVER))


def settle_one(channel: Channel, tag: int, settlement: Settlement) -> None:
    """Settle a delivery. Raises PreconditionFailed (406) for a tag that is not outstanding."""
    channel.unacked.check(tag)
    settle(channel, range(tag, tag + 1), settlement)


def settle(channel: Channel, tags: range, settlement: Settlement) -> None:
    """Settle the outstanding ones of these deliveries, or add them to the transaction of the channel.

    More than one of them are all that are outstanding up to the last one. They are requeued before any is delivered
    again, so they keep their order.
    """
    if channel.transaction is not None:
        budget = AT_ONCE_COST if len(tags) > TOGETHER or channel.unacked.shed is not None else UNLIMITED
        channel.do("settlements", channel.transaction.settle_many(channel, tags, settlement), budget)
    elif len(tags) <= (TOGETHER if channel.unacked.shed is None else 1):
        deliveries = channel.unacked.pop_many(tags)
        copies_cost = cost_of_copies(settlement, deliveries)
        cost = COST * len(deliveries) + copies_cost
        node = channel.connection.node
        if (
            copies_cost
            and node.journal.room() == BEHIND
            and any(is_read_back(settlement, queue, message) for queue, _, _, message in deliveries)
        ):
            # What is read waits in memory: for the journal, but not for a full disk, which acknowledgements behind it
            # may have to free.
            steps = chain(node.scheduler.caught_up(), settle_in_steps(channel, [(settlement, deliveries)], ""))
            channel.start_job("settlements", steps)
        elif cost <= COST * TOGETHER:
            apply_settlement(channel, settlement, deliveries, "")
            channel.connection.spent += cost
        else:
            channel.start_job("settlements", settle_in_steps(channel, [(settlement, deliveries)], ""))
    else:
        budget = 0 if settlement is Settlement.REJECT and channel.unacked.shed is not None else AT_ONCE_COST
        if tags[-1] == channel.delivery_tag:
            channel.do("settlements", settle_all(channel, settlement, ""), budget)
        else:
            channel.do("settlements", pop_and_settle(channel, tags, settlement), budget)


def pop_and_settle(channel: Channel, tags: range, settlement: Settlement) -> Iterator[int]:
    """Remove deliveries from `unacked` and settle them, as a job. The end of the channel may requeue some meanwhile."""
    taken = Taken(channel.unacked.cut_shed(tags[-1]), settlement)
    for some in channel.unacked.slices(tags):
        taken.add(channel.unacked.pop_items(some))
        yield SLICE >> POP_SHIFT
    yield from settle_in_steps(channel, [(settlement, taken.deliveries)], "", taken)
