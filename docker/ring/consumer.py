"""The consumer of one site: prints each message and the brokers that it passed, as in `b received 17 of c, by a`.

`again` marks a message that was received before, as may happen after a break; `missing` names numbers that were
skipped. SITE is the site's name, BROKER the URI of its broker. Totals are printed every minute and after SIGTERM.
"""

import asyncio
import json
import logging
import os
import signal
from collections import Counter
from contextlib import suppress

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

QUEUE = "news"
PREFETCH = 100
PAUSE_S = 1.0  # after a connection was lost
PATIENCE_S = 10.0  # for a connection
SUM_S = 60.0  # between two lines of totals


class Consumer:
    """The consumer of one site; `_last` is the highest number of each publisher."""

    def __init__(self, site: str, broker: str) -> None:
        self._site = site
        self._broker = broker
        self._runs: dict[str, object] = {}  # by publisher: the start of it whose numbers are counted
        self._last: dict[str, int] = {}
        self._received: Counter[str] = Counter()
        self._again = self._missing = 0

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
        if self._runs.get(publisher) != content.get("run"):
            self._runs[publisher] = content.get("run")
            self._last.pop(publisher, None)
        last = self._last.get(publisher, number - 1)
        self._received[publisher] += 1
        self._again += number <= last
        self._missing += max(number - last - 1, 0)
        self._last[publisher] = max(last, number)
        line = f"{self._site} received {number} of {publisher}"
        if between := brokers_between(message):
            line += f", by {between}"
        if number <= last:
            return line + ", again"
        if number > last + 1:
            return line + f", missing {last + 1} to {number - 1}"
        return line

    async def sum_up(self) -> None:
        while True:
            await asyncio.sleep(SUM_S)
            print(self.total(), flush=True)

    def total(self) -> str:
        """Return a line with the totals so far."""
        counts = ", ".join([f"{count} of {publisher}" for publisher, count in sorted(self._received.items())])
        return f"{self._site} in all: {counts or 'nothing'}; {self._again} of them again, {self._missing} left out"


def brokers_between(message: AbstractIncomingMessage) -> str:
    """Return the brokers between the publisher's and this one, the last first, as in the header."""
    entries = message.headers.get("x-received-from")
    if not isinstance(entries, list):
        return ""
    return ", ".join([str(entry.get("cluster-name")) for entry in entries[:-1] if isinstance(entry, dict)])


async def main() -> None:
    logging.disable()  # lost connections are printed above, in one line; the library would add tracebacks
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    consumer = Consumer(os.environ["SITE"], os.environ["BROKER"])
    running = asyncio.gather(consumer.run(), consumer.sum_up())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running
    print(consumer.total(), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
