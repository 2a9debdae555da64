"""Prints each message that its site receives, and by which broker between it came: `b received 17 of c, by a`.

`again` marks one it had before, as may come after a break; `missing` tells of numbers that were left out. SITE is the
site's name, BROKER the URI of its broker. SIGTERM ends it.
"""

import asyncio
import json
import os
import signal
from contextlib import suppress

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

QUEUE = "news"
PREFETCH = 100
PAUSE_S = 1.0  # after a connection was lost
PATIENCE_S = 10.0  # for a connection


class Consumer:
    """What came at one site; `_last` is the highest number of each publisher."""

    def __init__(self, site: str, broker: str) -> None:
        self._site = site
        self._broker = broker
        self._last: dict[str, int] = {}

    async def run(self) -> None:
        while True:
            try:
                await self._consume()
            except (TimeoutError, OSError, AMQPError, ChannelInvalidStateError) as error:
                print(f"{self._site} consumes again: {error!r}", flush=True)
            await asyncio.sleep(PAUSE_S)

    async def _consume(self) -> None:
        connection = await aio_pika.connect(self._broker, timeout=PATIENCE_S)
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=PREFETCH)
            queue = await channel.get_queue(QUEUE, ensure=False)
            async with queue.iterator() as messages:
                async for message in messages:
                    print(self._line(message), flush=True)
                    await message.ack()

    def _line(self, message: AbstractIncomingMessage) -> str:
        content = json.loads(message.body)
        publisher, number = content["from"], content["number"]
        last = self._last.get(publisher, number - 1)
        self._last[publisher] = max(last, number)
        line = f"{self._site} received {number} of {publisher}"
        if between := brokers_between(message):
            line += f", by {between}"
        if number <= last:
            return line + ", again"
        if number > last + 1:
            return line + f", missing {last + 1} to {number - 1}"
        return line


def brokers_between(message: AbstractIncomingMessage) -> str:
    """By which a message came; the header has the last first, and where it was published at the end."""
    entries = message.headers.get("x-received-from")
    if not isinstance(entries, list):
        return ""
    return ", ".join([str(entry.get("cluster-name")) for entry in entries[:-1] if isinstance(entry, dict)])


async def main() -> None:
    running = asyncio.ensure_future(Consumer(os.environ["SITE"], os.environ["BROKER"]).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running


if __name__ == "__main__":
    asyncio.run(main())
