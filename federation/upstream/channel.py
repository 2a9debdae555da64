"""A channel of an upstream connection: the methods that links need, with arguments exact to the octet.

The channel is opened and closed by aio-pika, all else is written and answered on the Line: integers keep their types,
names may be whatever AMQP allows, and many methods may be on their way at once. The errors are LinkFaults: with the
upstream's code where it closed the channel, with code 0 where the connection is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from warren.broker.plugin import Table

from ..errors import LinkError

if TYPE_CHECKING:
    from aiormq.abc import AbstractChannel

    from .connection import UpstreamConnection

EXCHANGE_DECLARE, EXCHANGE_DELETE, EXCHANGE_BIND, EXCHANGE_UNBIND = 0x0028000A, 0x00280014, 0x0028001E, 0x00280028
QUEUE_DECLARE, QUEUE_BIND, QUEUE_DELETE, QUEUE_UNBIND = 0x0032000A, 0x00320014, 0x00320028, 0x00320032
QOS, CONSUME, CANCEL = 0x003C000A, 0x003C0014, 0x003C001E

TICKET = b"\x00\x00"
SHORT_MAX = 255  # octets of a short string
WINDOW, WINDOW_BYTES = 500, 1 << 20  # methods on their way at once: far less than what an upstream may leave unread

_counts = Struct(">II").unpack_from
_qos = Struct(">IHB").pack


class UpstreamChannel:
    """`cancelled` is told the consumer tag when the upstream ends a consumer; `ended` why it closed the channel."""

    def __init__(self, connection: UpstreamConnection, channel: AbstractChannel) -> None:
        self.number = channel.number
        self.cancelled: Callable[[str], None] = lambda tag: None
        self.ended: asyncio.Future[LinkError] = asyncio.get_running_loop().create_future()
        self._connection = connection
        self._channel = channel

    # Queues

    async def declare_queue(
        self, name: str, durable: bool, auto_delete: bool, arguments: Table, passive: bool = False
    ) -> tuple[int, int]:
        """How many messages are ready, and how many consumers there are."""
        answer = await self._call(
            QUEUE_DECLARE, TICKET + short(name) + flags(passive, durable, False, auto_delete, False) + arguments.framed
        )
        messages, consumers = _counts(answer, 1 + answer[0])
        return messages, consumers

    async def delete_queue(self, name: str) -> None:
        """None there is fine."""
        await self._call(QUEUE_DELETE, TICKET + short(name) + flags(False, False, False))

    async def bind_queue(self, queue: str, exchange: str, routing_key: str, arguments: Table) -> None:
        ends = short(queue) + short(exchange) + short(routing_key)
        await self._call(QUEUE_BIND, TICKET + ends + flags(False) + arguments.framed)

    async def unbind_queue(self, queue: str, exchange: str, routing_key: str, arguments: Table) -> None:
        ends = short(queue) + short(exchange) + short(routing_key)
        await self._call(QUEUE_UNBIND, TICKET + ends + arguments.framed)

    # Exchanges

    async def declare_exchange(
        self,
        name: str,
        type_: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        passive: bool = False,
    ) -> None:
        what = short(name) + short(type_) + flags(passive, durable, auto_delete, internal, False)
        await self._call(EXCHANGE_DECLARE, TICKET + what + arguments.framed)

    async def delete_exchange(self, name: str, if_unused: bool = False) -> None:
        """None there is fine."""
        await self._call(EXCHANGE_DELETE, TICKET + short(name) + flags(if_unused, False))

    async def bind_exchange(
        self, destination: str, source: str, routing_key: str, arguments: Table, nowait: bool = False
    ) -> None:
        """With `nowait`, what the upstream does not like ends the channel later on."""
        if nowait:
            self._send(EXCHANGE_BIND, between(destination, source, routing_key, True, arguments))
        else:
            await self._call(EXCHANGE_BIND, between(destination, source, routing_key, False, arguments))

    async def unbind_exchange(
        self, destination: str, source: str, routing_key: str, arguments: Table, nowait: bool = False
    ) -> None:
        """None there is fine."""
        if nowait:
            self._send(EXCHANGE_UNBIND, between(destination, source, routing_key, True, arguments))
        else:
            await self._call(EXCHANGE_UNBIND, between(destination, source, routing_key, False, arguments))

    async def bind_many(
        self, destination: str, source: str, items: Sequence[tuple[str, Table]], nowait: bool = False
    ) -> None:
        """Routing keys with their arguments, WINDOW of them on their way at once. The upstream has them all when this
        returns; `nowait` spares it all answers but one for each window."""
        await self._many(EXCHANGE_BIND, destination, source, items, nowait)

    async def unbind_many(
        self, destination: str, source: str, items: Sequence[tuple[str, Table]], nowait: bool = False
    ) -> None:
        """As `bind_many`."""
        await self._many(EXCHANGE_UNBIND, destination, source, items, nowait)

    async def _many(
        self, index: int, destination: str, source: str, items: Sequence[tuple[str, Table]], nowait: bool
    ) -> None:
        answers: list[asyncio.Future[bytes]] = []
        count = size = 0
        for place, (routing_key, arguments) in enumerate(items, 1):
            method = between(destination, source, routing_key, nowait, arguments)
            count, size = count + 1, size + len(method)
            last = count == WINDOW or size >= WINDOW_BYTES or place == len(items)
            if last and nowait:
                method = between(destination, source, routing_key, False, arguments)
            if last or not nowait:
                answers.append(self._call(index, method))
            else:
                self._send(index, method)
            if last:
                for answer in answers:
                    await answer
                answers.clear()
                count = size = 0

    # Consuming

    async def qos(self, prefetch: int) -> None:
        """For each consumer that follows; 0 is no limit."""
        await self._call(QOS, _qos(0, prefetch, 0))

    async def consume(self, queue: str, tag: str, no_ack: bool, arguments: Table, nowait: bool = False) -> str:
        """The consumer tag, which the upstream makes up where `tag` is empty; not so with `nowait`."""
        method = TICKET + short(queue) + short(tag) + flags(False, no_ack, False, nowait) + arguments.framed
        if nowait:
            self._send(CONSUME, method)
            return tag
        answer = await self._call(CONSUME, method)
        return answer[1 : 1 + answer[0]].decode("utf-8", "surrogateescape")

    async def cancel(self, tag: str, nowait: bool = False) -> None:
        """What is delivered and not acknowledged stays so."""
        if nowait:
            self._send(CANCEL, short(tag) + flags(True))
        else:
            await self._call(CANCEL, short(tag) + flags(False))

    # The channel itself

    async def close(self) -> None:
        """What is not acknowledged goes back to its queue. Fine where it is closed already."""
        await self._connection.close_channel(self, self._channel)

    def _call(self, index: int, arguments: bytes) -> asyncio.Future[bytes]:
        """Written at once; what to await is its answer."""
        if self.ended.done():
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            answer.set_exception(self.ended.result())
            return answer
        return self._connection.line.call(self.number, index, arguments)

    def _send(self, index: int, arguments: bytes) -> None:
        """Raises LinkError where the channel or the connection is over."""
        if self.ended.done():
            raise self.ended.result()
        self._connection.line.send(self.number, index, arguments)


def between(destination: str, source: str, routing_key: str, nowait: bool, arguments: Table) -> bytes:
    """The arguments of exchange.bind and exchange.unbind."""
    return TICKET + short(destination) + short(source) + short(routing_key) + flags(nowait) + arguments.framed


def short(text: str) -> bytes:
    """Raises LinkError."""
    octets = text.encode("utf-8", "surrogateescape")
    if len(octets) > SHORT_MAX:
        raise LinkError(f"a name or a routing key has {len(octets)} octets, {SHORT_MAX} are allowed")
    return bytes((len(octets),)) + octets


def flags(*bits: bool) -> bytes:
    """Up to eight of them in one octet, the first the lowest."""
    return bytes((sum(bit << place for place, bit in enumerate(bits)),))
