"""The publisher of one site: publishes numbered messages, each again until the broker has confirmed it.

Each start counts from 1; the field `run` of a message identifies the start. SITE is the site's name, BROKER the URI of
its broker, RATE the number of messages a second. SIGTERM stops it.
"""

import asyncio
import json
import logging
import os
import signal
import time
from contextlib import suppress

import aio_pika
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

EXCHANGE = "federated.news"
PAUSE_S = 1.0  # after a connection was lost
PATIENCE_S = 10.0  # for a connection, and for a confirm


class Publisher:
    """The publisher of one site; `confirmed` is the number of the last confirmed message."""

    def __init__(self, site: str, broker: str, rate: float) -> None:
        self.confirmed = 0
        self.stopped = asyncio.Event()
        self._site = site
        self._broker = broker
        self._interval_s = 1 / rate
        self._run = time.time_ns()

    async def run(self) -> None:
        while not self.stopped.is_set():
            try:
                await self._publish()
            except (TimeoutError, OSError, AMQPError, ChannelInvalidStateError) as error:
                print(f"{self._site} publishes again from {self.confirmed + 1}: {error!r}", flush=True)
                await self._wait(PAUSE_S)
        print(f"{self._site} published 1 to {self.confirmed}, all confirmed", flush=True)

    async def _publish(self) -> None:
        connection = await aio_pika.connect(self._broker, timeout=PATIENCE_S)
        async with connection:
            channel = await connection.channel()
            exchange = await channel.get_exchange(EXCHANGE, ensure=False)
            while not self.stopped.is_set():
                body = json.dumps({"from": self._site, "run": self._run, "number": self.confirmed + 1}).encode()
                # From the timestamp links know how late they are.
                persistent = aio_pika.DeliveryMode.PERSISTENT
                message = aio_pika.Message(body, delivery_mode=persistent, timestamp=int(time.time()))
                await exchange.publish(message, routing_key="", timeout=PATIENCE_S)
                self.confirmed += 1
                await self._wait(self._interval_s)

    async def _wait(self, seconds: float) -> None:
        """Wait for some time, or until the publisher is to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopped.wait(), seconds)


async def main() -> None:
    logging.disable()  # lost connections are printed above, in one line; the library would add tracebacks
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    publisher = Publisher(os.environ["SITE"], os.environ["BROKER"], float(os.environ["RATE"]))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, publisher.stopped.set)
    await publisher.run()


if __name__ == "__main__":
    asyncio.run(main())
