"""Publishers with confirms and consumers that move from one broker to another during a migration, and their count.

Each message has a number within its queue and the place where it was published, so that losses, duplicates and changes
of order are known. Clients connect again when a broker is killed, and publish again what was not confirmed.
"""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field

import aio_pika
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage
from aiormq.exceptions import AMQPError

from tests.support.polling import until_async

EXCHANGE = "work"
SOURCE, TARGET = "source", "target"
BATCH = 20  # messages of a publisher that wait for their confirms together
PAUSE_S = 0.05  # the pause of a publisher between two batches
PREFETCH = 100
AGAIN_S = 0.3  # between attempts to connect
CONNECTED_WITHIN_S = 120.0  # the time in which a killed broker starts
WITHIN_S = 60.0  # the time in which the next confirmed message must arrive
LOST = (AMQPError, OSError, asyncio.TimeoutError, aio_pika.exceptions.ChannelInvalidStateError)
Id = tuple[str, int]
"""The place where a message was published, and its number there."""


@dataclass
class Outcome:
    """The count of one round. `disordered` are messages that arrived after a later one of the same place and queue."""

    confirmed: int
    lost: int
    duplicates: int
    unflagged: int
    disordered: int

    def __str__(self) -> str:
        return (
            f"{self.confirmed:,} confirmed, {self.lost} lost, {self.duplicates} duplicates "
            f"({self.unflagged} not marked as redelivered), {self.disordered} out of order"
        )


@dataclass
class ReceivedMessages:
    """The messages of one queue that consumers received: ids by the place of the consumer, in the order of arrival."""

    at: dict[str, list[Id]] = field(default_factory=lambda: {SOURCE: [], TARGET: []})
    times: Counter[Id] = field(default_factory=Counter)
    unflagged: int = 0


class Load:
    """The clients of a migration. `uris` are those of the two brokers."""

    def __init__(self, uris: dict[str, str], queues: int) -> None:
        self.uris = uris
        self.queues = [f"q{number:03}" for number in range(queues)]
        self.confirmed: dict[str, list[Id]] = {queue: [] for queue in self.queues}
        self.received: dict[str, ReceivedMessages] = {queue: ReceivedMessages() for queue in self.queues}
        self._next: Counter[tuple[str, str]] = Counter()
        self._tasks: dict[tuple[str, str, int], tuple[asyncio.Task[None], asyncio.Event]] = {}

    async def declare(self) -> None:
        """Declare the exchange and the queues at the source, anew where a round before has left them."""
        for place in (TARGET, SOURCE):
            connection = await self._connect(place)
            channel = await connection.channel()
            for name in self.queues:
                await channel.queue_delete(name)
            if place == TARGET:
                await connection.close()
        exchange = await channel.declare_exchange(EXCHANGE, "topic", durable=True)
        for name in self.queues:
            queue = await channel.declare_queue(name, durable=True)
            await queue.bind(exchange, f"to.{name}")
        await connection.close()

    async def fill(self, queue: str, count: int) -> None:
        """Publish a backlog at the source."""
        connection = await self._connect(SOURCE)
        channel = await connection.channel()
        exchange = await channel.get_exchange(EXCHANGE, ensure=False)
        while count > 0:
            await self._publish(exchange, SOURCE, queue, min(count, 500))
            count -= 500
        await connection.close()

    def start(self, role: str, place: str, number: int, of: int) -> None:
        """Start one of `of` publishers or consumers, which serves its share of the queues."""
        work = {"publisher": self._keep_publishing, "consumer": self._keep_consuming}[role]
        stopping = asyncio.Event()
        task = asyncio.create_task(work(place, self.queues[number::of], stopping))
        self._tasks[role, place, number] = task, stopping

    async def stop(self, role: str, place: str, number: int) -> None:
        """Stop a client without leaving a message unconfirmed or unacknowledged."""
        task, stopping = self._tasks.pop((role, place, number))
        stopping.set()
        await task

    async def _connect(self, place: str) -> AbstractConnection:
        async with asyncio.timeout(CONNECTED_WITHIN_S):
            while True:
                try:
                    return await aio_pika.connect(self.uris[place], timeout=10)
                except LOST:
                    await asyncio.sleep(AGAIN_S)

    async def _keep_publishing(self, place: str, queues: list[str], stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            connection = await self._connect(place)
            with contextlib.suppress(*LOST):
                channel = await connection.channel()
                exchange = await channel.get_exchange(EXCHANGE, ensure=False)
                while not stopping.is_set():
                    for queue in queues:
                        await self._publish(exchange, place, queue, BATCH // len(queues) + 1)
                    await asyncio.sleep(PAUSE_S)
            with contextlib.suppress(*LOST):
                await connection.close()

    async def _publish(self, exchange: aio_pika.abc.AbstractExchange, place: str, queue: str, count: int) -> None:
        """Publish messages in order, and wait for their confirms. After a failure they keep their numbers."""
        first = self._next[place, queue]
        ids = [(place, number) for number in range(first, first + count)]
        publishes = []
        for place_, number in ids:
            body = f"{place_} {number}".encode()
            message = aio_pika.Message(body, delivery_mode=2, headers={"queue": queue}, message_id=body.decode())
            publishes.append(asyncio.ensure_future(exchange.publish(message, f"to.{queue}", timeout=30)))
        results = await asyncio.gather(*publishes, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise OSError(str(result))
        self._next[place, queue] = first + count
        self.confirmed[queue] += ids

    async def _keep_consuming(self, place: str, queues: list[str], stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            connection = await self._connect(place)
            try:
                await self._consume(connection, place, queues, stopping)
            except LOST:
                pass
            except Exception as error:
                if type(error) is not Exception:  # aiormq's, of a call whose channel was closed meanwhile
                    raise
            with contextlib.suppress(*LOST):
                await connection.close()
            if not stopping.is_set():
                await asyncio.sleep(AGAIN_S)

    async def _consume(
        self, connection: AbstractConnection, place: str, names: list[str], stopping: asyncio.Event
    ) -> None:
        channel = await connection.channel()
        await channel.set_qos(PREFETCH)
        ended = asyncio.Event()  # also by an error of the channel, after which the connection stays open
        channel.close_callbacks.add(lambda *_: ended.set())
        pending: set[asyncio.Task[None]] = set()

        def receive(queue: str, message: AbstractIncomingMessage) -> None:
            published, number = message.body.decode().split()
            found, id_ = self.received[queue], (published, int(number))
            found.times[id_] += 1
            if found.times[id_] == 1:
                found.at[place].append(id_)
            elif not message.redelivered:
                found.unflagged += 1
            task = asyncio.ensure_future(message.ack())
            pending.add(task)
            task.add_done_callback(pending.discard)

        consuming = []
        for name in names:
            queue = await channel.get_queue(name, ensure=False)

            async def callback(message: AbstractIncomingMessage, name: str = name) -> None:
                receive(name, message)

            consuming.append((queue, await queue.consume(callback)))
        closed = asyncio.ensure_future(connection.closed())
        waits = [closed, asyncio.ensure_future(ended.wait()), asyncio.ensure_future(stopping.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not closed.done() and not ended.is_set():
            for queue, tag in consuming:
                await queue.cancel(tag)
            await asyncio.sleep(0)  # tasks of earlier deliveries may not have begun
        while pending and not closed.done() and not ended.is_set():
            await asyncio.wait([*waits[:2], *pending], return_when=asyncio.FIRST_COMPLETED)
        for unended in (*waits, *pending):  # aiormq's acks of a lost connection do not end
            unended.cancel()

    # The count

    async def everything_arrived(self) -> None:
        """Wait until all confirmed messages have arrived, or none has arrived for WITHIN_S."""
        missing = 0
        while (left := self.outcome().lost) and left != missing:
            missing = left
            with contextlib.suppress(AssertionError):
                await until_async(lambda: self.outcome().lost < missing, within_s=WITHIN_S, every_s=1.0)  # noqa: B023

    def losses(self) -> str:
        """Return the queues that lack messages, with their first and last lost numbers."""
        found = []
        for queue in self.queues:
            lost = sorted(set(self.confirmed[queue]) - set(self.received[queue].times))
            if lost:
                found.append(f"{queue}: {len(lost)} of {len(self.confirmed[queue])}, {lost[0]} to {lost[-1]}")
        return "\n".join(found)

    def outcome(self) -> Outcome:
        found = Outcome(0, 0, 0, 0, 0)
        for queue in self.queues:
            confirmed, received = self.confirmed[queue], self.received[queue]
            found.confirmed += len(confirmed)
            found.lost += len(set(confirmed) - set(received.times))
            found.duplicates += sum(received.times.values()) - len(received.times)
            found.unflagged += received.unflagged
            for ids in received.at.values():
                for place in (SOURCE, TARGET):
                    numbers = [number for published, number in ids if published == place]
                    found.disordered += sum(one > next_ for one, next_ in zip(numbers, numbers[1:], strict=False))
        return found
