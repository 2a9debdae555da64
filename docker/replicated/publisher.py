"""The publisher: numbered messages, each published until a broker has confirmed it, as in `confirmed 17 by warren-a`.

BROKERS are the URIs of the brokers, of which one serves; RATE is the number of messages a second. SIGTERM stops it.
"""

import asyncio
import logging
import os
import signal
from contextlib import suppress

import aio_pika
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

QUEUE = "orders"
PAUSE_S = 0.2  # between attempts to connect
PATIENCE_S = 5.0  # for a connection
CONFIRM_WITHIN_S = 30.0  # longer than a server needs to be replaced


class Publisher:
    """The publisher; `confirmed` is the number of the last confirmed message."""

    def __init__(self, brokers: list[str], rate: float) -> None:
        self.confirmed = 0
        self.stopped = asyncio.Event()
        self._brokers = brokers
        self._interval_s = 1 / rate

    async def run(self) -> None:
        while not self.stopped.is_set():
            try:
                await self._publish(self._brokers[0])
            except (TimeoutError, OSError, AMQPError, ChannelInvalidStateError) as error:
                self._brokers.append(self._brokers.pop(0))
                print(f"publishes again from {self.confirmed + 1}: {type(error).__name__}", flush=True)
                await self._wait(PAUSE_S)
        print(f"published 1 to {self.confirmed}, all confirmed", flush=True)

    async def _publish(self, broker: str) -> None:
        connection = await aio_pika.connect(broker, timeout=PATIENCE_S, heartbeat=5)
        async with connection:
            channel = await connection.channel()
            await channel.declare_queue(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
            while not self.stopped.is_set():
                message = aio_pika.Message(b"%d" % (self.confirmed + 1), delivery_mode=2)
                await channel.default_exchange.publish(message, QUEUE, timeout=CONFIRM_WITHIN_S)
                self.confirmed += 1
                print(f"confirmed {self.confirmed} by {broker.rpartition('@')[2].removeprefix('amqp://')}", flush=True)
                await self._wait(self._interval_s)

    async def _wait(self, seconds: float) -> None:
        """Wait for some time, or until the publisher is to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopped.wait(), seconds)


async def main() -> None:
    logging.disable()  # lost connections are printed above, in one line; the library would add tracebacks
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    publisher = Publisher(os.environ["BROKERS"].split(), float(os.environ["RATE"]))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, publisher.stopped.set)
    await publisher.run()


if __name__ == "__main__":
    asyncio.run(main())
