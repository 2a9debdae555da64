"""The clients of the load: each is a thread with a connection of its own, until the broker is killed."""

import random
import threading
import time
from collections import deque

from pamqp.commands import Basic

from tests.support import codec
from tests.support.amqp_client import Client, Closed, Content

from .ledger import Ledger

SOLO = ["solo-0", "solo-1", "solo-2", "solo-3"]
COPIES = ["copy-0", "copy-1", "kept"]  # what the fanout exchange feeds; nobody consumes from `kept`
FANOUT = "crash-all"
BARRIER = "barrier"
QUEUES = [*SOLO, *COPIES]
WINDOW = 300  # publishes without a confirm
BURST = 40  # publishes in one write
HOLD = 40  # deliveries that are not acknowledged at once
PATTERN = bytes(range(256)) * 1024


class Worker(threading.Thread):
    """A thread with a connection. `ended` is the error that ended it; after a kill, the end of the stream."""

    def __init__(self, client: Client, ledger: Ledger, seed: int) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.channel = client.channel()
        self.ledger = ledger
        self.random = random.Random(seed)
        self.ended = "it is running"

    def run(self) -> None:
        try:
            while True:
                self.work()
        except Closed as closed:
            self.ended = str(closed)
        except OSError as error:
            self.ended = f"end of stream: {error}"
        except AssertionError as error:
            self.ended = f"failed: {error}"

    def work(self) -> None:
        raise NotImplementedError


class Publisher(Worker):
    """A publisher with confirms and a window of unconfirmed publishes. `most` is the number that it may publish."""

    most = 1 << 62

    def __init__(self, client: Client, ledger: Ledger, seed: int, round_: int, number: int) -> None:
        super().__init__(client, ledger, seed)
        self._name = b"%d %d" % (round_, number)
        self._published = 0
        self._waiting: deque[tuple[list[str], bytes, bool]] = deque()  # not settled yet, in order
        self._settled = 0
        self.select()

    def select(self) -> None:
        self.channel.confirm()

    def work(self) -> None:
        self.burst(self.random.randint(1, BURST))
        self.settle(WINDOW if self.random.random() < 0.9 else 0)

    def burst(self, count: int) -> None:
        while self._published >= self.most:
            time.sleep(0.01)
        out = bytearray()
        for _ in range(count):
            fan = self.random.random() < 0.2
            transient = self.random.random() < 0.05
            body = self._body()
            queues = COPIES if fan else [self.random.choice(SOLO)]
            for queue in queues:
                self.ledger.published[queue].add(body)
                if transient:
                    self.ledger.transient[queue].add(body)
            self._waiting.append((queues, body, transient))
            fields = {"exchange": FANOUT if fan else "", "routing_key": queues[0], "mandatory": True}
            number = self.channel.number
            out += codec.method_frame(number, Basic.Publish, fields)
            out += codec.header_frame(number, len(body), {"delivery_mode": 1 if transient else 2})
            out += codec.body_frames(number, body, self.client.frame_max)
        self.client.raw(bytes(out))

    def settle(self, at_most: int) -> None:
        """Read confirms until at most `at_most` are missing."""
        while len(self._waiting) > at_most:
            item = self.channel.next()
            assert isinstance(item, Basic.Ack), f"expected a confirm, got {item!r}"
            upto = item.delivery_tag or 0
            assert upto == self._settled + 1 or (item.multiple and upto > self._settled), "a confirm is missing"
            self.confirmed(upto - self._settled)
            self._settled = upto

    def confirmed(self, count: int) -> None:
        """Record that the oldest waiting publishes are safe."""
        for _ in range(count):
            queues, body, transient = self._waiting.popleft()
            if not transient:
                for queue in queues:
                    self.ledger.confirmed[queue].add(body)

    def _body(self) -> bytes:
        """Return a body: mostly small, some of several frames."""
        dice = self.random.random()
        size = self.random.randint(0, 200) if dice < 0.98 else 20_000 if dice < 0.998 else 200_000
        self._published += 1
        return b"%s %d %s" % (self._name, self._published, PATTERN[:size])


class Committer(Publisher):
    """A publisher with transactions: committed messages are safe."""

    def select(self) -> None:
        self.channel.transact()

    def work(self) -> None:
        self.burst(self.random.randint(1, BURST))
        self.channel.commit()
        self.confirmed(len(self._waiting))


class Consumer(Worker):
    """A consumer that acknowledges some deliveries, singly and many at once, and knows by a barrier what is on disk.

    The barrier is a publish with a confirm, sent after the acknowledgements on the same connection.
    """

    def __init__(self, client: Client, ledger: Ledger, seed: int, queue: str) -> None:
        super().__init__(client, ledger, seed)
        self.queue = queue
        self._held: list[Content] = []
        self._acked: list[bytes] = []  # since the last barrier
        self._requeued = 0  # since then; in a transaction they take their place of the prefetch until its commit
        self._barriers = 0
        self.select()
        self.channel.qos(200)
        self.channel.consume(queue)

    def select(self) -> None:
        self._barrier = self.client.channel()
        self._barrier.confirm()

    def work(self) -> None:
        content = self.channel.delivery()
        self.ledger.delivered[self.queue].add(content.body)
        self._held.append(content)
        if len(self._held) >= HOLD:
            self._acknowledge()
        elif self.random.random() < 0.3:
            self._ack([self._held.pop(self.random.randrange(len(self._held)))], False)
        if len(self._acked) + self._requeued >= 60:
            self.barrier()
            self._requeued = 0
            self.ledger.surely_acked[self.queue].update(self._acked)
            self._acked.clear()

    def _acknowledge(self) -> None:
        """Acknowledge all deliveries that are held, or requeue them."""
        held, self._held = self._held, []
        if self.random.random() < 0.2:
            self.channel.nack(held[-1].tag, multiple=True)
            self._requeued += len(held)
        else:
            self._ack(held, True)

    def _ack(self, contents: list[Content], multiple: bool) -> None:
        bodies = [content.body for content in contents]
        self.ledger.acked[self.queue].update(bodies)
        self._acked += bodies
        self.channel.ack(contents[-1].tag, multiple)

    def barrier(self) -> None:
        self._barriers += 1
        self._barrier.publish("", BARRIER, b"barrier", {"delivery_mode": 2})
        acked, _ = self._barrier.confirms([self._barriers])
        assert acked


class CommittingConsumer(Consumer):
    """A consumer with transactions: committed acknowledgements are safe."""

    def select(self) -> None:
        self.channel.transact()

    def barrier(self) -> None:
        self.channel.commit()
