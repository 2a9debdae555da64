"""The mixed load: types of queues, confirms, transactions, dead letters, short connections and slow consumers."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from pamqp.commands import Basic

from tests.support.amqp_client import Channel, Closed, Silence
from tests.support.peer import SocketPeer
from tools.federation_faults.crossing import again

PERSISTENT = {"delivery_mode": 2}
BURST = 10
PAUSE_S = 0.05
TTL_MS = 300
HELD = 20  # unacknowledged deliveries of a slow consumer
LINKED = "fed.soak"  # the exchange that the second broker federates
INBOX = "arrived"  # the queue with its messages at that broker

QUEUES: dict[str, dict[str, object]] = {
    "classic": {},
    "quorum": {"x-queue-type": "quorum"},
    "priority": {"x-max-priority": 5},
    "rejecting": {"x-max-length": 5000, "x-overflow": "reject-publish"},
    "expiring": {"x-message-ttl": TTL_MS, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    "dead": {},
    "committed": {},
}
PUBLISHED = [name for name in QUEUES if name not in ("dead", "committed")]
CONSUMED = [name for name in QUEUES if name != "expiring"]  # without consumers: its messages become dead letters


class Ledger:
    """The published bodies that must arrive, the times of their confirms, and the received copies."""

    def __init__(self) -> None:
        self.confirmed: dict[bytes, float] = {}
        self.came: Counter[bytes] = Counter()
        self.fresh: Counter[bytes] = Counter()
        self.round_trips_ms: list[float] = []

    @property
    def lost(self) -> set[bytes]:
        return {body for body in list(self.confirmed) if body not in self.came}

    def p99_ms(self) -> float:
        """Return the 99th percentile of the times from publish to delivery since the last call."""
        taken, self.round_trips_ms = sorted(self.round_trips_ms), []
        return taken[int(len(taken) * 0.99)] if taken else 0.0

    @property
    def again(self) -> int:
        return self.came.total() - len(self.came)

    @property
    def unflagged(self) -> int:
        """Return the further copies without the flag `redelivered`."""
        return sum(count - 1 for count in self.fresh.values() if count > 1)


class Worker(threading.Thread):
    """A client that connects again after the loss of its connection, until `end`. `error` is its fault, or None."""

    def __init__(self, address: Callable[[], str], ledger: Ledger, seed: int) -> None:
        super().__init__(daemon=True)
        self.error = ""
        self.ledger = ledger
        self.dice = random.Random(seed)
        self._address = address
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            peer = SocketPeer(self._address())
            try:
                channel = peer.connect().channel()
                self.prepare(channel)
                while not self._ended.is_set():
                    self.work(channel)
            except (Closed, Silence, OSError):
                self._ended.wait(PAUSE_S)
            except Exception as error:
                self.error = repr(error)
                raise
            finally:
                peer.close()

    def end(self) -> None:
        self._ended.set()

    def pause(self) -> None:
        self._ended.wait(self.dice.uniform(0, 2 * PAUSE_S))

    def prepare(self, channel: Channel) -> None:
        """Set up a new connection."""

    def work(self, channel: Channel) -> None:
        raise NotImplementedError


class Publisher(Worker):
    """A publisher with confirms to one queue, or to the exchange that is federated."""

    def __init__(self, address: Callable[[], str], ledger: Ledger, seed: int, target: str) -> None:
        super().__init__(address, ledger, seed)
        self.target = target
        self.count = 0
        self._settled = 0

    def prepare(self, channel: Channel) -> None:
        channel.confirm()
        self._settled = 0

    def work(self, channel: Channel) -> None:
        bodies = self.publish(channel)
        acked, _ = channel.confirms(range(self._settled + 1, self._settled + BURST + 1))
        now_s = time.monotonic()
        self.ledger.confirmed.update((bodies[number - self._settled - 1], now_s) for number in acked)
        self._settled += BURST
        self.pause()

    def publish(self, channel: Channel) -> list[bytes]:
        bodies = []
        for _ in range(BURST):
            self.count += 1
            body = b"%s %d %.6f " % (self.target.encode(), self.count, time.monotonic())
            body += bytes(self.dice.randrange(2000))
            properties = {**PERSISTENT, "priority": self.dice.randrange(5)} if self.target == "priority" else PERSISTENT
            exchange = LINKED if self.target == LINKED else ""
            channel.publish(exchange, self.target, body, properties)
            bodies.append(body)
        return bodies


class Committer(Publisher):
    """A publisher with transactions, of which every fifth is rolled back."""

    def prepare(self, channel: Channel) -> None:
        channel.transact()

    def work(self, channel: Channel) -> None:
        bodies = self.publish(channel)
        if self.dice.random() < 0.2:
            channel.rollback()
        else:
            channel.commit()
            self.ledger.confirmed.update(dict.fromkeys(bodies, time.monotonic()))
        self.pause()


class Consumer(Worker):
    """A consumer of one queue, which requeues some deliveries; a slow one waits before it acknowledges."""

    def __init__(self, address: Callable[[], str], ledger: Ledger, seed: int, queue: str, slow: bool = False) -> None:
        super().__init__(address, ledger, seed)
        self.queue, self.slow = queue, slow

    def prepare(self, channel: Channel) -> None:
        channel.qos(HELD if self.slow else 100)
        channel.consume(self.queue)

    def work(self, channel: Channel) -> None:
        with suppress(Silence):
            channel.client.pump(100)
        inbox = channel.client.inbox(channel.number)
        if channel.client.ended:
            raise Closed("end of stream")
        if self.slow:
            self.pause()
        while inbox:
            content = inbox.popleft()
            if not content.redelivered and self.dice.random() < 0.02:
                channel.nack(content.tag)
                continue
            channel.ack(content.tag)
            self.ledger.came[content.body] += 1
            flagged = content.redelivered or (self.queue == INBOX and again(content))
            self.ledger.fresh[content.body] += not flagged
            if self.queue == "classic":
                sent_s = float(content.body.split(b" ", 3)[2])
                self.ledger.round_trips_ms.append((time.monotonic() - sent_s) * 1000)


class Churn(Worker):
    """Connections that declare a queue, publish to it, get it and close."""

    def work(self, channel: Channel) -> None:
        peer = SocketPeer(self._address())
        try:
            short = peer.connect().channel()
            name = short.declare(exclusive=True).queue
            short.publish("", name, b"short")
            assert isinstance(short.call(Basic.Get, queue=name, no_ack=True).body, bytes)
            short.client.close()
        finally:
            peer.close()
        self.pause()


def declare(channel: Channel) -> None:
    """Declare all objects of the load."""
    channel.exchange(LINKED, "direct", durable=True)
    for name, arguments in QUEUES.items():
        channel.declare(name, durable=True, arguments=arguments)
