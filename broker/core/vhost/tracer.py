"""The interface through which a virtual host reports messages to the firehose."""

from __future__ import annotations

from ..messages.message import Message
from ..queues.message_log import Origin
from ..queues.route_target import RouteTarget


class Tracer:
    """A tracer, called with every message that is published or delivered in a virtual host while tracing is on."""

    __slots__ = ()

    def published(
        self, origin: Origin, message: Message, keys: tuple[str, ...], queues: tuple[RouteTarget, ...]
    ) -> None:
        """A message has been routed by these keys to these queues."""
        raise NotImplementedError

    def delivered(self, origin: Origin, message: Message, queue: str, redelivered: bool) -> None:
        """A message has been delivered to a consumer, or by basic.get."""
        raise NotImplementedError
