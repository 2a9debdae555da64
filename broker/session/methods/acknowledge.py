"""basic.ack, nack, reject and recover: deliveries that end, or go back (spec/core.md 9.8-9.10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pamqp import commands

from ...amqp.errors import NotSupported, PreconditionFailed
from ...amqp.field_table import Table
from ...core.jobs.scheduler import SLICE
from ...core.messages.message import Message
from ...core.queues.message_log import CHANNEL, NACK, RECOVER, REJECT
from ...core.queues.queue import Queue
from ...wire import method_encoder

if TYPE_CHECKING:
    from ..channel import Channel, Unacked
    from ..consumer import ChannelConsumer

TOGETHER = 5_000  # deliveries that are settled in one go; more of them become a job
COST = 2  # of one of them (`core.scheduler`)
LOOK_COST = 500  # of a look at TOGETHER of them
SPAN = 100_000  # tags that are tried one by one to find those that are outstanding

End = int
"""How a delivery ends: acknowledged; refused for good; sent back by basic.nack, which is no failure; or otherwise."""
ACKED, REJECTED, NACKED, RETURNED = range(4)


def ack(channel: Channel, tags: list[int], multiple: bool) -> None:
    """Raises PreconditionFailed (406) for a tag that is not outstanding. HOT: bench B, D, I, L."""
    if multiple:
        tags = outstanding(channel, tags[0])
        if len(tags) > TOGETHER:
            refuse(channel, tags, ACKED)
            return
    transaction = channel.transaction
    if transaction is not None:
        for tag in tags:
            transaction.settle(tag, take(channel, tag), ACKED)
        return
    unacked = channel.unacked
    consumed = 0
    run: list[Message] = []  # of one queue, and one consumer
    of: Queue | None = None
    by: ChannelConsumer | None = None
    try:
        for tag in tags:
            entry = unacked.pop(tag, None)
            if entry is None:
                raise unknown(tag)
            queue, subscription, _, message = entry
            if queue is not of or subscription is not by:
                if of is not None:
                    settle(channel, of, run, by)
                of, by, run = queue, subscription, []
            run.append(message)
            if subscription is not None:
                subscription.settled()
                consumed += subscription.shares
    finally:  # also what came before a tag that is not known
        if of is not None:
            settle(channel, of, run, by)
    if consumed and channel.prefetch_limit:
        channel.released(consumed)


def settle(channel: Channel, queue: Queue, messages: list[Message], subscription: ChannelConsumer | None) -> None:
    """They are acknowledged. HOT: bench B, D, I, L."""
    channel.delivering.acked(len(messages))
    if channel.lane is not None:
        channel.lane.acked(queue, len(messages))
    if channel.vhost.message_log is not None:
        channel.vhost.message_log.acked(channel.origin, tag_of(subscription), queue, messages)
    queue.settle(messages)


def nack(channel: Channel, method: commands.Basic.Nack, arguments: Table) -> None:
    tag = method.delivery_tag or 0
    tags = outstanding(channel, tag) if method.multiple else [tag]
    refuse(channel, tags, NACKED if method.requeue else REJECTED)


def reject(channel: Channel, method: commands.Basic.Reject, arguments: Table) -> None:
    refuse(channel, [method.delivery_tag or 0], RETURNED if method.requeue else REJECTED)


def recover(channel: Channel, method: commands.Basic.Recover, arguments: Table) -> None:
    recover_all(channel, bool(method.requeue))
    channel.send_after_job(method_encoder.method(channel.number, method_encoder.RECOVER_OK))


def recover_async(channel: Channel, method: commands.Basic.RecoverAsync, arguments: Table) -> None:
    recover_all(channel, bool(method.requeue))


def recover_all(channel: Channel, back: bool) -> None:
    """Raises NotSupported (540) unless the messages are to go back to their queues."""
    if not back:
        raise NotSupported("requeue=false")
    finish(channel, [(RETURNED, take_all(channel, list(channel.unacked)))], RECOVER)


def refuse(channel: Channel, tags: list[int], end: End) -> None:
    """Back to the queue, or gone. Those that go back all do before any can be delivered again, so their order holds."""
    transaction = channel.transaction
    if transaction is not None:
        for tag in tags:
            transaction.settle(tag, take(channel, tag), end)
    else:
        finish(channel, [(end, take_all(channel, tags))])


def requeue_in_steps(channel: Channel) -> Iterator[int]:
    """Requeue all that is out on a channel that ends, as a part of the job that ends it."""
    return finish_all(channel, [(RETURNED, take_all(channel, list(channel.unacked)))], CHANNEL, lambda: None)


def outstanding(channel: Channel, tag: int) -> list[int]:
    """Tags up to and with this one, 0 for all; raises PreconditionFailed (406) for one that is not outstanding."""
    unacked = channel.unacked
    if tag == 0:
        return list(unacked)
    if tag not in unacked:
        raise unknown(tag)
    if tag == next(reversed(unacked)):  # they are in the order of their tags
        channel.lowest_tag = tag + 1
        return list(unacked)
    # Not from the beginning of `unacked`: a dict from which many were taken there is slow to begin with. No tag is
    # tried twice, unless a transaction is rolled back.
    first, channel.lowest_tag = channel.lowest_tag, tag + 1
    if tag - first < SPAN:
        return [other for other in range(first, tag + 1) if other in unacked]
    return [other for other in unacked if other <= tag]


def take(channel: Channel, tag: int) -> Unacked:
    """Off the list of what is out; raises PreconditionFailed (406)."""
    entry = channel.unacked.pop(tag, None)
    if entry is None:
        raise unknown(tag)
    return entry


def take_all(channel: Channel, tags: list[int]) -> list[Unacked]:
    """Likewise, each of them."""
    unacked = channel.unacked
    if len(tags) == len(unacked) > TOGETHER:  # so many are known to be outstanding, and these are all
        entries = list(unacked.values())
        unacked.clear()
        return entries
    return [take(channel, tag) for tag in tags]


Run = tuple[End, list["Unacked"]]
"""Deliveries that end in the same way, one after the other."""


def finish(channel: Channel, runs: list[Run], reason: str = "") -> None:
    """Settle deliveries that were taken off the list; `reason` is empty where the consumer asked for it.

    Of very many that follows in slices, and the connection is not served until it is done.
    """
    if sum(len(entries) for _, entries in runs) <= TOGETHER:
        for end, entries in runs:
            finish_some(channel, end, entries, reason)
    else:
        connection, finished = channel.connection, channel.begin_job()
        name = f"settlements of channel {channel.number} of connection {connection.name}"
        connection.node.scheduler.start(name, finish_all(channel, runs, reason, finished), connection.job_failed)


def finish_all(channel: Channel, runs: list[Run], reason: str, finished: Callable[[], None]) -> Iterator[int]:
    """A job. Queues deliver nothing before all that comes back to them is there, so that its order holds."""
    queues: set[Queue] = set()
    for end, entries in runs:
        if end in (NACKED, RETURNED):
            for at in range(0, len(entries), TOGETHER):
                queues.update([entry[0] for entry in entries[at : at + TOGETHER]])
                yield LOOK_COST
    for queue in queues:
        queue.pause()
    try:
        for end, entries in runs:
            entries.reverse()
            while entries:  # which lets go of messages slice by slice as well
                some = entries[: -SLICE - 1 : -1]
                del entries[-SLICE:]
                finish_some(channel, end, some, reason)
                yield COST * len(some)
    finally:
        for queue in queues:
            queue.resume()
    finished()


def finish_some(channel: Channel, end: End, entries: list[Unacked], reason: str) -> None:
    consumed = 0
    log = channel.vhost.message_log
    for queue, subscription, position, message in entries:
        if log is not None and end != ACKED and not reason:
            log.refused(channel.origin, tag_of(subscription), queue, message)
        if end == ACKED:
            settle(channel, queue, [message], subscription)
        elif end == REJECTED:
            queue.reject(position, message)
        else:
            queue.requeue(position, message, end == NACKED, reason or (NACK if end == NACKED else REJECT))
        if subscription is not None:
            subscription.settled()
            consumed += subscription.shares
    if consumed and channel.prefetch_limit:
        channel.released(consumed)


def tag_of(subscription: ChannelConsumer | None) -> str:
    """Empty of a basic.get."""
    return subscription.tag if subscription is not None else ""


def unknown(tag: int) -> PreconditionFailed:
    return PreconditionFailed(f"unknown delivery tag {tag}")
