"""The consumer: prints the number of each message, as in `received 17`, and whether it comes again or some are missing.

`redelivered` is the broker's flag. BROKERS are the URIs of the brokers, of which one serves. SIGTERM prints the totals
and stops it.
"""

import asyncio
import logging
import os
import signal
from contextlib import suppress

import aio_pika
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

QUEUE = "orders"
PREFETCH = 100
PAUSE_S = 0.2  # between attempts to connect
PATIENCE_S = 5.0  # for a connection


class Consumer:
    """The consumer; numbers come in order, except those that come again."""

    def __init__(self, brokers: list[str]) -> None:
        self._brokers = brokers
        self._received: set[int] = set()
        self._again = 0

    async def run(self) -> None:
        while True:
            try:
                await self._consume(self._brokers[0])
            except (TimeoutError, OSError, AMQPError, ChannelInvalidStateError) as error:
                self._brokers.append(self._brokers.pop(0))
                print(f"consumes again: {type(error).__name__}", flush=True)
            await asyncio.sleep(PAUSE_S)

    async def _consume(self, broker: str) -> None:
        connection = await aio_pika.connect(broker, timeout=PATIENCE_S, heartbeat=5)
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=PREFETCH)
            queue = await channel.declare_queue(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
            async with queue.iterator() as messages:
                async for message in messages:
                    print(self._line(int(message.body), message.redelivered or False), flush=True)
                    await message.ack()

    def _line(self, number: int, redelivered: bool) -> str:
        line = f"received {number}"
        if number in self._received:
            self._again += 1
            return f"{line}, again{', redelivered' if redelivered else ''}"
        missing = number - 1 if number - 1 not in self._received and number > 1 else 0
        self._received.add(number)
        return f"{line}, {missing} is missing" if missing else line

    def total(self) -> str:
        """Return a line with the totals."""
        left_out = max(self._received, default=0) - len(self._received)
        return f"in all: {len(self._received)} received, {self._again} of them again, {left_out} missing"


async def main() -> None:
    logging.disable()  # lost connections are printed above, in one line; the library would add tracebacks
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    consumer = Consumer(os.environ["BROKERS"].split())
    running = asyncio.ensure_future(consumer.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running
    print(consumer.total(), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
