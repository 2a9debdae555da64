"""A channel of an upstream connection: the methods that links need, with exactly encoded arguments.

The methods are written to UpstreamTransport, which also matches their replies: integers keep their types, all names
that AMQP allows can be used, and many methods may await replies at once. All errors are LinkErrors: with the upstream's
code if it closed the channel, with code 0 if the connection is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING

from warren.broker.amqp.limits import SHORT_STRING
from warren.broker.plugin import Table

from .errors import LinkError
from .turns import METHODS, METHODS_COST

if TYPE_CHECKING:
    from .transport import UpstreamTransport

EXCHANGE_DECLARE, EXCHANGE_DELETE, EXCHANGE_BIND, EXCHANGE_UNBIND = 0x0028000A, 0x00280014, 0x0028001E, 0x00280028
QUEUE_DECLARE, QUEUE_BIND, QUEUE_DELETE = 0x0032000A, 0x00320014, 0x00320028
QOS, CONSUME, CANCEL = 0x003C000A, 0x003C0014, 0x003C001E

TICKET = b"\x00\x00"
WINDOW, WINDOW_BYTES = 500, 1 << 20  # unanswered methods: far less than what an upstream may leave unread

# Pairs of routing key and arguments, and the costs of some of them
Items = Iterable[tuple[str, Table] | int]

_decode_counts = Struct(">II").unpack_from
_encode_qos = Struct(">IHB").pack


class UpstreamChannel:
    """An open channel at an upstream.

    `cancelled` is called with the consumer tag when the upstream cancels a consumer. `ended` is completed with the
    reason, a LinkError, when either side closes the channel.
    """

    def __init__(
        self, number: int, transport: UpstreamTransport, close: Callable[[UpstreamChannel], Awaitable[None]]
    ) -> None:
        self.number = number
        self.cancelled: Callable[[str], None] = lambda tag: None
        self.ended: asyncio.Future[LinkError] = asyncio.get_running_loop().create_future()
        self._transport = transport
        self._close = close

    # Queues

    async def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Table = Table.EMPTY,
        passive: bool = False,
    ) -> tuple[int, int]:
        """Declare a queue. Returns the numbers of ready messages and of consumers."""
        answer = await self._call(
            QUEUE_DECLARE,
            TICKET + encode_short(name) + encode_flags(passive, durable, False, auto_delete, False) + arguments.framed,
        )
        try:
            messages, consumers = _decode_counts(answer, 1 + answer[0])
        except (IndexError, StructError):
            raise LinkError("the upstream sent a malformed queue.declare-ok") from None
        return messages, consumers

    async def delete_queue(self, name: str) -> None:
        """Delete a queue, if it exists."""
        await self._call(QUEUE_DELETE, TICKET + encode_short(name) + encode_flags(False, False, False))

    async def bind_queue(self, queue: str, exchange: str, routing_key: str, arguments: Table) -> None:
        ends = encode_short(queue) + encode_short(exchange) + encode_short(routing_key)
        await self._call(QUEUE_BIND, TICKET + ends + encode_flags(False) + arguments.framed)

    # Exchanges

    async def declare_exchange(
        self,
        name: str,
        type_: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table = Table.EMPTY,
        passive: bool = False,
    ) -> None:
        flags = encode_flags(passive, durable, auto_delete, internal, False)
        await self._call(EXCHANGE_DECLARE, TICKET + encode_short(name) + encode_short(type_) + flags + arguments.framed)

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange, if it exists."""
        await self._call(EXCHANGE_DELETE, TICKET + encode_short(name) + encode_flags(if_unused, False))

    async def wait(self, cost: int) -> None:
        """Wait for a turn that has time for work of this cost (`turns`)."""
        await self._transport.turns.wait(cost)

    async def bind_many(
        self, destination: str, source: str, items: Items, nowait: bool = False, unbind: bool = False
    ) -> None:
        """Bind `destination` to `source`, or unbind it, by each pair of routing key and arguments.

        At most WINDOW methods await replies at once. The upstream has applied all when this returns; with `nowait` it
        replies only to the last of each window. A turn takes METHODS pairs, or more if it has time. A number among the
        pairs is the cost (`turns`) of the next.
        """
        index = EXCHANGE_UNBIND if unbind else EXCHANGE_BIND
        answers: list[asyncio.Future[bytes]] = []
        count = size = sent = 0
        pairs = iter(items)
        pair = await self._next(pairs)
        while pair is not None:
            if sent % METHODS == 0:
                await self._transport.turns.wait(METHODS_COST)
                if self.ended.done():
                    raise self.ended.result()
            sent += 1
            (routing_key, arguments), pair = pair, await self._next(pairs)
            method = encode_binding(destination, source, routing_key, nowait, arguments)
            count, size = count + 1, size + len(method)
            last = count == WINDOW or size >= WINDOW_BYTES or pair is None
            if last and nowait:
                method = encode_binding(destination, source, routing_key, False, arguments)
            if last or not nowait:
                answers.append(self._call(index, method))
            else:
                self._send(index, method)
            if last:
                for answer in answers:
                    await answer
                answers.clear()
                count = size = 0

    async def _next(self, pairs: Iterator[tuple[str, Table] | int]) -> tuple[str, Table] | None:
        """Return the next pair, in a turn that has time for it, or None if there is none."""
        for pair in pairs:
            if not isinstance(pair, int):
                return pair
            await self._transport.turns.wait(pair)
        return None

    # Consuming

    async def qos(self, prefetch: int) -> None:
        """Set the prefetch of each later consumer; 0 is no limit."""
        await self._call(QOS, _encode_qos(0, prefetch, 0))

    async def consume(self, queue: str, tag: str, no_ack: bool, arguments: Table, nowait: bool = False) -> None:
        """Start a consumer; the upstream generates its tag if `tag` is empty, but not with `nowait`."""
        flags = encode_flags(False, no_ack, False, nowait)
        method = TICKET + encode_short(queue) + encode_short(tag) + flags + arguments.framed
        if nowait:
            self._send(CONSUME, method)
        else:
            await self._call(CONSUME, method)

    def cancel(self, tag: str) -> None:
        """Cancel a consumer without a reply; its unacknowledged deliveries stay unacknowledged."""
        self._send(CANCEL, encode_short(tag) + encode_flags(True))

    # The channel itself

    async def close(self) -> None:
        """Close the channel, if it is open; the upstream requeues its unacknowledged deliveries."""
        await self._close(self)

    def _call(self, index: int, arguments: bytes) -> asyncio.Future[bytes]:
        """Write a method at once. The result of the future is the arguments of the reply."""
        if self.ended.done():
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            answer.set_exception(self.ended.result())
            return answer
        return self._transport.call(self.number, index, arguments)

    def _send(self, index: int, arguments: bytes) -> None:
        """Write a method that has no reply. Raises LinkError if the channel is closed."""
        if self.ended.done():
            raise self.ended.result()
        self._transport.send(self.number, index, arguments)


def encode_binding(destination: str, source: str, routing_key: str, nowait: bool, arguments: Table) -> bytes:
    """Encode the arguments of exchange.bind and exchange.unbind."""
    names = encode_short(destination) + encode_short(source) + encode_short(routing_key)
    return TICKET + names + encode_flags(nowait) + arguments.framed


def encode_short(text: str, what: str = "a name or a routing key") -> bytes:
    """Encode a short string. Raises LinkError, which says `what` it is, if it is too long."""
    encoded = text.encode("utf-8", "surrogateescape")
    if len(encoded) > SHORT_STRING:
        raise LinkError(f"{what} has {len(encoded)} bytes, {SHORT_STRING} are allowed")
    return bytes((len(encoded),)) + encoded


def encode_flags(*bits: bool) -> bytes:
    """Encode up to eight bits as one byte, the first one as the lowest bit."""
    return bytes((sum(bit << place for place, bit in enumerate(bits)),))
