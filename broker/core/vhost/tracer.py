"""The interface through which a virtual host reports messages to the firehose and to live traces."""

from collections.abc import Sequence

from ..messages.message import Message
from ..queues.route_target import Targets
from ..queues.traffic_log import Origin


class Tracer:
    """A tracer, called with every message that is published or delivered in its virtual host."""

    __slots__ = ()

    def published(self, origin: Origin, message: Message, keys: tuple[str, ...], queues: Targets) -> None:
        """A message has been routed by these keys to these queues."""

    def delivered(self, origin: Origin, message: Message, queue: str, redelivered: bool) -> None:
        """A message has been delivered to a consumer, or by basic.get."""


class Tracers(Tracer):
    """Several tracers of one virtual host."""

    __slots__ = ("_all",)

    def __init__(self, all_: Sequence[Tracer]) -> None:
        self._all = tuple(all_)

    def published(self, origin: Origin, message: Message, keys: tuple[str, ...], queues: Targets) -> None:
        for tracer in self._all:
            tracer.published(origin, message, keys, queues)

    def delivered(self, origin: Origin, message: Message, queue: str, redelivered: bool) -> None:
        for tracer in self._all:
            tracer.delivered(origin, message, queue, redelivered)
