"""basic.ack, nack, reject and recover: deliveries that end, or go back (spec/core.md 9.8-9.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pamqp import commands

from ..errors import NotSupported, PreconditionFailed
from ..table import Table
from ..wire import encode

if TYPE_CHECKING:
    from .channel import Channel, Unacked


def ack(channel: Channel, tags: list[int], multiple: bool) -> None:
    """Raises PreconditionFailed (406) for a tag that is not outstanding. HOT: bench B, D, I, L."""
    if multiple:
        tags = outstanding(channel, tags[0])
    transaction = channel.transaction
    if transaction is not None:
        for tag in tags:
            transaction.settle(channel, tag, take(channel, tag), True, False)
        return
    unacked = channel.unacked
    consumed = 0
    for tag in tags:
        entry = unacked.pop(tag, None)
        if entry is None:
            raise unknown(tag)
        queue, subscription, position, message = entry
        queue.settle(position, message)
        if subscription is not None:
            subscription.settled()
            consumed += 1
    if consumed and channel.prefetch_limit:
        channel.released(consumed)


def nack(channel: Channel, method: commands.Basic.Nack, arguments: Table) -> None:
    tag = method.delivery_tag or 0
    tags = outstanding(channel, tag) if method.multiple else [tag]
    refuse(channel, tags, bool(method.requeue))


def reject(channel: Channel, method: commands.Basic.Reject, arguments: Table) -> None:
    refuse(channel, [method.delivery_tag or 0], bool(method.requeue))


def recover(channel: Channel, method: commands.Basic.Recover, arguments: Table) -> None:
    recover_all(channel, bool(method.requeue))
    channel.send(encode.method(channel.number, encode.RECOVER_OK))


def recover_async(channel: Channel, method: commands.Basic.RecoverAsync, arguments: Table) -> None:
    recover_all(channel, bool(method.requeue))


def recover_all(channel: Channel, back: bool) -> None:
    """Raises NotSupported (540) unless the messages are to go back to their queues."""
    if not back:
        raise NotSupported("requeue=false")
    requeue(channel, list(channel.unacked))


def refuse(channel: Channel, tags: list[int], back: bool) -> None:
    """Back to the queue, or gone."""
    transaction = channel.transaction
    if transaction is not None:
        for tag in tags:
            transaction.settle(channel, tag, take(channel, tag), False, back)
    elif back:
        requeue(channel, tags)
    else:
        finish(channel, [(take(channel, tag), False, False) for tag in tags])


def requeue(channel: Channel, tags: list[int]) -> None:
    """All of them are back before any can be delivered again, so that their order holds."""
    finish(channel, [(take(channel, tag), False, True) for tag in tags])


def outstanding(channel: Channel, tag: int) -> list[int]:
    """Tags up to and with this one, 0 for all; raises PreconditionFailed (406) for one that is not outstanding."""
    if tag == 0:
        return list(channel.unacked)
    if tag not in channel.unacked:
        raise unknown(tag)
    tags = []
    for other in channel.unacked:
        if other > tag:
            break
        tags.append(other)
    return tags


def take(channel: Channel, tag: int) -> Unacked:
    """Off the list of what is out; raises PreconditionFailed (406)."""
    entry = channel.unacked.pop(tag, None)
    if entry is None:
        raise unknown(tag)
    return entry


def finish(channel: Channel, ends: list[tuple[Unacked, bool, bool]]) -> None:
    """What follows from deliveries that were taken off the list; for each whether it was acknowledged, or goes back."""
    consumed = 0
    for (queue, subscription, position, message), acknowledged, back in ends:
        if acknowledged:
            queue.settle(position, message)
        elif back:
            queue.requeue(position, message)
        else:
            queue.reject(position, message)
        if subscription is not None:
            subscription.settled()
            consumed += 1
    if consumed and channel.prefetch_limit:
        channel.released(consumed)


def unknown(tag: int) -> PreconditionFailed:
    return PreconditionFailed(f"unknown delivery tag {tag}")
