"""The load: publishers with confirms and a consumer that know several brokers, and counts of all messages.

A client that loses its broker, or gets no answer while another broker accepts clients, connects to the next address.
Publishers then repeat unconfirmed messages, like applications.
"""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from pamqp.commands import Basic, Connection
from pamqp.commands import Channel as ChannelMethods

from tests.support.amqp_client import Channel, Client, Closed, Content, Silence
from tests.support.peer import SocketPeer, SocketPipe
from tests.support.polling import until

WORK, BACKLOG = "work", "backlog"
PERSISTENT = {"delivery_mode": 2}
PUBLISHERS = 8
WINDOW = 50  # publishes of one publisher without a confirm
PAUSE_S = 0.01  # between bursts, and between attempts to connect
PATIENCE_MS = 2000  # the time for a reply, before other brokers are tried
ACK_EVERY = 20
SETTLED_WITHIN_S = 120.0
PREFETCH = 200


class ShortPipe(SocketPipe):
    """A pipe over TCP that waits for a reply for PATIENCE_MS at most."""

    def receive(self, wait_ms: int | None) -> bytes:
        return super().receive(PATIENCE_MS if wait_ms is None else wait_ms)


class Line(SocketPeer):
    """A broker at an address, which may be stopped."""

    def dial(self, **peer: object) -> Client:
        return self._kept(Client(ShortPipe(*self._address)))


def connect(address: str) -> Client:
    """Open a connection. Raises OSError, Closed, Silence."""
    line = Line(address)
    try:
        return line.connect()
    except BaseException:
        line.close()
        raise


def accepts(address: str) -> bool:
    try:
        connect(address).vanish()
    except (OSError, Closed, Silence):
        return False
    return True


class Ledger:
    """The counts of a run; a body is published by one publisher, maybe more than once.

    confirmed  when each body was confirmed, by the monotonic clock
    fresh      deliveries without the flag `redelivered`
    blocked    how often a publisher was held, by connection.blocked
    late       bodies that were confirmed on connections that their publishers had left, and published again
    """

    def __init__(self) -> None:
        self.published: Counter[bytes] = Counter()
        self.confirmed: dict[bytes, float] = {}
        self.came: Counter[bytes] = Counter()
        self.fresh: Counter[bytes] = Counter()
        self.blocked = 0
        self.unblocked = 0
        self.late: list[bytes] = []
        # Abandoned connections with their channels, and their unconfirmed messages by number.
        self.left: list[tuple[Client, int, dict[int, bytes]]] = []

    @property
    def lost(self) -> int:
        return sum(body not in self.came for body in list(self.confirmed))

    @property
    def unexpected(self) -> int:
        return sum(body not in self.published for body in self.came)

    @property
    def untrue(self) -> int:
        """Return late confirms of messages that were not stored: of stored ones both copies arrived."""
        return sum(self.came[body] < 2 for body in self.late)

    @property
    def again(self) -> int:
        """Return the number of further deliveries of messages."""
        return self.came.total() - len(self.came)

    @property
    def unflagged(self) -> int:
        """Return the number of further deliveries without the flag that no publish explains."""
        return sum(max(count - self.published[body], 0) for body, count in self.fresh.items())

    def confirmed_between(self, start_s: float, end_s: float) -> int:
        return sum(start_s < when_s < end_s for when_s in list(self.confirmed.values()))

    def wait_for_confirm(self, after_s: float) -> float:
        """Wait for a confirm after a time, and return the seconds between them."""
        first = until(
            lambda: min((when_s for when_s in list(self.confirmed.values()) if when_s > after_s), default=0.0),
            "a confirm",
            SETTLED_WITHIN_S,
        )
        return first - after_s

    def __str__(self) -> str:
        return (
            f"{len(self.confirmed)} confirmed, {self.lost} lost, {self.again} came again, {self.unflagged} of them"
            f" not flagged, {self.unexpected} unexpected"
        )


class Worker(threading.Thread):
    """A client with the addresses of several brokers. `error` is the failure that ended it."""

    def __init__(self, addresses: Sequence[str], ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self.error = ""
        self._sent: dict[int, bytes] = {}  # unconfirmed messages, by the number of the publish on this channel
        self._addresses = list(addresses)
        self._ledger = ledger
        self._ending = threading.Event()

    def end(self) -> None:
        self._ending.set()

    @property
    def finished(self) -> bool:
        return self._ending.is_set()

    def run(self) -> None:
        while not self.finished:
            try:
                client = connect(self._addresses[0])
            except (OSError, Closed, Silence):
                self._next()
                time.sleep(PAUSE_S)
                continue
            channel = client.unopened(1)
            try:
                channel.call(ChannelMethods.Open)
                self.serve(channel)
            except (OSError, Closed, Silence):
                self._next()
            except Exception as error:
                self.error = repr(error)
                raise
            if client.ended or self.finished:
                client.vanish()
            else:
                self._ledger.left.append((client, channel.number, self._sent))

    def _next(self) -> None:
        """Turn to the next address."""
        self._addresses.append(self._addresses.pop(0))

    def serve(self, channel: Channel) -> None:
        raise NotImplementedError

    def take(self, channel: Channel, wait_ms: int) -> list[object]:
        """Return a frame received on the channel within a time. Raises Closed, OSError, Silence."""
        client = channel.client
        try:
            client.pump(wait_ms)
        except Silence:
            if wait_ms >= PATIENCE_MS and any(map(accepts, self._addresses[1:])):
                raise
        inbox = client.inbox(channel.number)
        items = [inbox.popleft() for _ in range(len(inbox))]
        for method in client.inbox(0):
            self._ledger.blocked += isinstance(method, Connection.Blocked)
            self._ledger.unblocked += isinstance(method, Connection.Unblocked)
            if isinstance(method, Connection.Close):
                client.ended = True
        client.inbox(0).clear()
        if client.ended and not items:
            raise Closed("end of stream")
        return items


class Publisher(Worker):
    """A publisher of numbered messages; each is published until it is confirmed. It ends when all are."""

    def __init__(self, number: int, addresses: Sequence[str], ledger: Ledger, filler: bytes = b"") -> None:
        super().__init__(addresses, ledger)
        self._number = number
        self._filler = filler
        self._count = 0
        self._unconfirmed: dict[bytes, None] = {}  # in order

    @property
    def finished(self) -> bool:
        return self._ending.is_set() and not self._unconfirmed

    def serve(self, channel: Channel) -> None:
        channel.confirm()
        sent = self._sent = {}
        last = 0
        waiting = list(self._unconfirmed)
        window = WINDOW
        while not self.finished:
            while not self._ending.is_set() and len(self._unconfirmed) < window:
                self._count += 1
                body = b"%d %d %s" % (self._number, self._count, self._filler)
                self._unconfirmed[body] = None
                waiting.append(body)
            for body in waiting:
                last += 1
                sent[last] = body
                self._ledger.published[body] += 1
                channel.publish("", WORK, body, PERSISTENT)
            waiting.clear()
            items = self.take(channel, PATIENCE_MS)
            window = WINDOW if items else window + 1  # publishers are held when they publish
            for item in items:
                assert isinstance(item, Basic.Ack | Basic.Nack), f"no confirm: {item!r}"
                for body in confirmed_by(item, sent):
                    if isinstance(item, Basic.Nack):
                        waiting.append(body)
                        continue
                    self._ledger.confirmed[body] = time.monotonic()
                    del self._unconfirmed[body]
            time.sleep(PAUSE_S)


class Consumer(Worker):
    """A consumer that acknowledges every few deliveries, and has some unacknowledged most of the time."""

    def serve(self, channel: Channel) -> None:
        channel.qos(PREFETCH)
        channel.consume(WORK)
        while not self.finished:
            contents = self.take(channel, PATIENCE_MS)
            for number, content in enumerate(contents, 1):
                assert isinstance(content, Content), f"no delivery: {content!r}"
                self._ledger.came[content.body] += 1
                self._ledger.fresh[content.body] += not content.redelivered
                if number % ACK_EVERY == 0 or number == len(contents):
                    channel.ack(content.tag, multiple=True)


class Load:
    """Publishers and a consumer at brokers with these addresses, from `start` on."""

    def __init__(self, addresses: Sequence[str], filler: bytes = b"") -> None:
        self.addresses = addresses
        self.ledger = Ledger()
        self.publishers = [Publisher(number, addresses, self.ledger, filler) for number in range(PUBLISHERS)]
        self.consumer = Consumer(addresses, self.ledger)

    def start(self, consuming: bool = True) -> None:
        """Declare the queue and start the clients, or the publishers alone; return when messages are confirmed."""
        client = connect(next(filter(accepts, self.addresses)))
        client.channel().declare(WORK, durable=True)
        client.close()
        for publisher in self.publishers:
            publisher.start()
        if consuming:
            self.consumer.start()
        self.ledger.wait_for_confirm(0.0)

    def run(self, seconds: float) -> None:
        """Let it run for a while."""
        time.sleep(seconds)
        self.check()

    def wait_until_held(self) -> None:
        """Wait until connection.blocked has come to each publisher."""
        until(lambda: self.ledger.blocked >= len(self.publishers), "publishers are held")

    def check(self) -> None:
        for worker in (*self.publishers, self.consumer):
            assert not worker.error, f"{type(worker).__name__}: {worker.error}"

    def finish(self) -> Ledger:
        """End the load when all messages were published, confirmed and consumed, or are late. Returns the counts."""
        for publisher in self.publishers:
            publisher.end()
        for publisher in self.publishers:
            publisher.join(SETTLED_WITHIN_S)
        self.check()
        assert not any(publisher.is_alive() for publisher in self.publishers), "messages are not confirmed"
        ledger, seen, since_s = self.ledger, -1, time.monotonic()
        while ledger.lost and time.monotonic() - since_s < PATIENCE_MS * 3 / 1000:
            if len(ledger.came) != seen:
                seen, since_s = len(ledger.came), time.monotonic()
            time.sleep(PAUSE_S)
        self.consumer.end()
        self.consumer.join(SETTLED_WITHIN_S)
        self.check()
        for client, number, sent in ledger.left:
            ledger.late += late_confirms(client, number, sent)
        return ledger


def confirmed_by(item: Basic.Ack | Basic.Nack, sent: dict[int, bytes]) -> list[bytes]:
    """Remove and return the messages that an answer confirms."""
    upto = item.delivery_tag or 0
    return [sent.pop(tag) for tag in [tag for tag in sent if tag == upto or (item.multiple and tag < upto)]]


def late_confirms(client: Client, channel: int, sent: dict[int, bytes]) -> list[bytes]:
    """Return the messages confirmed on an abandoned connection, and close it."""
    with suppress(Silence, OSError):
        while not client.ended:
            client.pump(100)
    client.vanish()
    acks = [item for item in client.inbox(channel) if isinstance(item, Basic.Ack)]
    return [body for ack in acks for body in confirmed_by(ack, sent)]
