"""A publisher whose confirms are counted while the broker has a fault, and a consumer of the remaining messages."""

import threading
import time
from collections.abc import Iterable

from pamqp.commands import Basic, Connection

from tests.support.amqp_client import Client, Closed, Silence
from tests.support.broker_process import BrokerProcess
from tests.support.peer import SocketPeer

PERSISTENT = {"delivery_mode": 2}
WINDOW = 200  # publishes without a confirm
POLL_MS = 20
JOIN_S = 30.0


class Flood(threading.Thread):
    """A publisher of numbered persistent messages with confirms, as fast as it can, until `end` or a lost connection.

    confirmed     when each number was confirmed, by the monotonic clock
    refused       numbers that were answered with basic.nack
    blocked_s     when connection.blocked was received, or None; unblocked_s likewise
    """

    def __init__(
        self, port: int, queue: str, body_bytes: int = 100, properties: object = PERSISTENT, limit: int = 1 << 62
    ) -> None:
        super().__init__(daemon=True)
        self.confirmed: dict[int, float] = {}
        self.refused: set[int] = set()
        self.last_confirm_s = 0.0
        self.published = 0
        self.blocked_s: float | None = None
        self.unblocked_s: float | None = None
        self._queue, self._properties, self._limit = queue, properties, limit
        self._filler = b" " + bytes(body_bytes)
        self._stopped = threading.Event()
        self._client = SocketPeer(f"127.0.0.1:{port}").connect()
        self._channel = self._client.channel()
        self._channel.declare(queue, durable=True)
        self._channel.confirm()
        self._settled = 0

    @property
    def open(self) -> int:
        """Return the number of publishes without an answer."""
        return self.published - self._settled

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                while self.open < WINDOW and self.blocked_s is None and self.published < self._limit:
                    self._channel.publish("", self._queue, b"%d" % self.published + self._filler, self._properties)
                    self.published += 1
                self._read()
        except (Closed, OSError):
            pass

    def _read(self) -> None:
        try:
            self._client.pump(POLL_MS)
        except Silence:
            return
        if self._client.ended:
            raise Closed("end of stream")
        self._note_alarms(self._client)
        inbox = self._client.inbox(self._channel.number)
        while inbox:
            item = inbox.popleft()
            assert isinstance(item, Basic.Ack | Basic.Nack)
            tag = item.delivery_tag or 0
            numbers: Iterable[int] = range(self._settled, tag) if item.multiple else (tag - 1,)
            for number in numbers:
                self._settled += 1
                if isinstance(item, Basic.Ack):
                    self.confirmed[number] = self.last_confirm_s = time.monotonic()
                else:
                    self.refused.add(number)

    def _note_alarms(self, client: Client) -> None:
        for method in client.inbox(0):
            if isinstance(method, Connection.Blocked):
                self.blocked_s, self.unblocked_s = time.monotonic(), None
            elif isinstance(method, Connection.Unblocked):
                self.blocked_s, self.unblocked_s = None, time.monotonic()
        client.inbox(0).clear()

    def confirmed_between(self, start_s: float, end_s: float) -> list[float]:
        """Return the times of confirms in an interval."""
        return [when_s for when_s in list(self.confirmed.values()) if start_s < when_s < end_s]

    def end(self) -> None:
        """Stop publishing, and close."""
        self._stopped.set()
        self.join(JOIN_S)
        self._client.vanish()


def take_all(broker: BrokerProcess, queue: str) -> list[bytes]:
    """Consume and acknowledge all messages of a queue, and return their bodies."""
    client = broker.connect()
    channel = client.channel()
    count = channel.count(queue)
    channel.qos(500)
    channel.consume(queue)
    bodies = []
    for number in range(1, count + 1):
        content = channel.delivery()
        bodies.append(content.body)
        if number % 100 == 0 or number == count:
            channel.ack(content.tag, multiple=True)
    channel.sync()
    client.close()
    return bodies


def numbers(bodies: Iterable[bytes]) -> list[int]:
    """Return the numbers of the messages of a flood."""
    return [int(body.partition(b" ")[0]) for body in bodies]


def fill(broker: BrokerProcess, queue: str, bodies: Iterable[bytes], window: int = WINDOW) -> None:
    """Publish these persistent messages to a durable queue, and wait for their confirms after each `window` of them."""
    client = broker.connect()
    channel = client.channel()
    channel.declare(queue, durable=True)
    channel.confirm()
    count = 0
    for count, body in enumerate(bodies, 1):
        channel.publish("", queue, body, PERSISTENT)
        if count % window == 0:
            channel.confirms(range(count - window + 1, count + 1))
    channel.confirms(range(count - count % window + 1, count + 1))
    client.close()
