"""What a channel tells the firehose, where its vhost has one (spec/core.md 24.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.messages.message import Message
from ..core.queues.queue import Queue
from ..core.queues.route_target import RouteTarget

if TYPE_CHECKING:
    from .channel import Channel


def published(channel: Channel, message: Message, keys: tuple[str, ...], queues: tuple[RouteTarget, ...]) -> None:
    """A message that is valid, and is about to go to these queues."""
    firehose = channel.vhost.firehose
    if firehose is not None:
        firehose.published(channel.origin, message, keys, queues)


def delivered(channel: Channel, messages: list[Message], queue: Queue, redelivered: bool) -> None:
    firehose = channel.vhost.firehose
    if firehose is not None:
        for message in messages:
            firehose.delivered(channel.origin, message, queue.name, redelivered)
