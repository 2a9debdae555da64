"""Two Warrens with a link under load and faults, and the lost and repeated messages.

up --proxy--> down    the exchange `fed.x`; a publisher with confirms at the upstream, one durable queue here
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from tests.support.amqp_client import Client, Closed, Content
from tests.support.federated_broker import FederatedBroker
from tests.support.federation import Row, headers
from tests.support.loop_thread import LoopThread
from tests.support.peer import SocketPeer
from tests.support.polling import until
from tests.support.proxy import Proxy

EXCHANGE, QUEUE, KEY = "fed.x", "all", "k"
UPSTREAM_QUEUE = f"federation: {EXCHANGE} -> down"
PREFETCH = 100
BURST = 20
PAUSE_S = 0.02  # between bursts: about a thousand messages a second
SETTLED_WITHIN_S = 60.0
ARRIVED_S, SYNCED_S = 0.02, 0.1  # the time in which a message from one broker reaches the other, and is synced there
PERSISTENT = {"delivery_mode": 2}


class Publisher(threading.Thread):
    """A publisher of numbers with confirms, which connects again after a fault.

    `confirmed` are the confirmed numbers, which must arrive.
    """

    def __init__(self, upstream: Callable[[], SocketPeer]) -> None:
        super().__init__(daemon=True)
        self.confirmed: set[int] = set()
        self.published = 0
        self._upstream = upstream
        self._going = threading.Event()
        self._idle = threading.Event()
        self._ended = False
        self._going.set()

    def run(self) -> None:
        while not self._ended:
            peer = self._upstream()
            try:
                self._publish(peer.connect())
            except (Closed, OSError):
                time.sleep(PAUSE_S)  # it is away
            finally:
                peer.close()

    def _publish(self, client: Client) -> None:
        channel = client.channel()
        channel.confirm()
        settled = 0
        while not self._ended:
            if not self._going.is_set():
                self._idle.set()
                self._going.wait(SETTLED_WITHIN_S)
                continue
            numbers = range(self.published, self.published + BURST)
            self.published += BURST
            for number in numbers:
                channel.publish(EXCHANGE, KEY, b"%d" % number, PERSISTENT)
            acked, _ = channel.confirms(range(settled + 1, settled + BURST + 1))
            settled += BURST
            if len(acked) == BURST:
                self.confirmed.update(numbers)
            time.sleep(PAUSE_S)

    def pause(self) -> None:
        """Wait until publishing has ended and everything is confirmed."""
        self._idle.clear()
        self._going.clear()
        assert self._idle.wait(SETTLED_WITHIN_S)

    def go_on(self) -> None:
        self._going.set()

    def end(self) -> None:
        """End the publisher, in any state."""
        self._ended = True
        self._going.set()
        if self.is_alive():
            self.join(SETTLED_WITHIN_S)


class Outcome:
    """The fates of the messages. `unflagged` are further copies without the redelivered flag.

    `under_way` is the maximum of messages that were between the brokers or not synced at a fault.
    """

    def __init__(
        self, publisher: Publisher, came: list[Content], breaks: int, longest_s: float, under_way: int
    ) -> None:
        numbers = [int(message.body) for message in came]
        fresh = Counter(number for number, message in zip(numbers, came, strict=True) if not again(message))
        self.breaks = breaks
        self.under_way = under_way
        self.longest_s = longest_s  # the times until the link ran again
        self.published = publisher.published
        self.confirmed = len(publisher.confirmed)
        self.arrived = len(set(numbers))
        self.lost = sorted(publisher.confirmed - set(numbers))
        self.duplicates = len(numbers) - self.arrived
        self.unflagged = sum(count - 1 for count in fresh.values() if count > 1)
        self.unordered = sum(later <= sooner for sooner, later in zip(first(numbers), first(numbers)[1:], strict=False))

    def __str__(self) -> str:
        return (
            f"{self.breaks} breaks, {self.published} published, {self.confirmed} confirmed, {self.arrived} arrived, "
            f"{len(self.lost)} lost, {self.duplicates} duplicates, {self.unflagged} of them not flagged, "
            f"{self.unordered} out of order, back within {self.longest_s:.1f} s"
        )


def again(message: Content) -> bool:
    """Return whether the copy has the flag that it may be a repeat."""
    ((_, newest), *_) = headers(message)["x-received-from"][1]
    return ("redelivered", ("t", True)) in newest


def first(numbers: list[int]) -> list[int]:
    """Return the first copy of each message."""
    return list(dict.fromkeys(numbers))


class Crossing:
    """`begin` has the load begin; what comes after may break the link, each in its own way, and waits until it runs
    again; `outcome` ends the load and returns its result. Then another may begin."""

    def __init__(self, folder: Path, loop: LoopThread, **settings: object) -> None:
        self.up, self.down = FederatedBroker(folder / "up", "up"), FederatedBroker(folder / "down", "down")
        self.dice = random.Random(7)
        self.up.launch()
        self.down.launch()
        for warren in (self.up, self.down):
            warren.wait_ready()
            channel = warren.connect().channel()
            channel.exchange(EXCHANGE, "direct", durable=True)
        channel.declare(QUEUE, durable=True)
        channel.bind(QUEUE, EXCHANGE, KEY)
        self.proxy = Proxy(loop, self.up.address)
        settings = {"prefetch_count": PREFETCH, **settings}
        self.down.federate(f"^{EXCHANGE}", f"amqp://127.0.0.1:{self.proxy.port}/%2f?heartbeat=2", **settings)
        self.running()
        self.breaks = self.under_way = 0
        self.longest_s = 0.0
        self.publisher = self._new_publisher()

    def _new_publisher(self) -> Publisher:
        return Publisher(lambda: SocketPeer(f"127.0.0.1:{self.up.port}"))

    def begin(self) -> None:
        self.breaks = self.under_way = 0
        self.longest_s = 0.0
        self.publisher = self._new_publisher()
        self.publisher.start()
        self.load()

    def close(self) -> None:
        self.publisher.end()
        self.proxy.close()
        self.up.close()
        self.down.close()

    def running(self) -> Row:
        """The link, once it runs and is bound."""
        (row,) = self.down.running()
        until(lambda: KEY in self.up.keys(EXCHANGE), lambda: f"{self.up.keys(EXCHANGE)}\n{self.down.tail()}")
        return row

    def back(self) -> None:
        """Wait until the link runs again."""
        began_s = time.monotonic()
        self.running()
        self.breaks += 1
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)

    def load(self, seconds: float = 0.0) -> None:
        """Let the load run on, for a random time by default."""
        time.sleep(seconds or self.dice.uniform(0.1, 0.5))

    # What breaks

    @contextmanager
    def breaking(self, settled_s: float) -> Iterator[None]:
        """Context that breaks the link: what is lost or repeated by it is not older than `settled_s`.

        So it is what waited upstream at that time, was on its way to there, or has been published since.
        """
        before = self.publisher.published - BURST
        waiting = self.up.queues()[UPSTREAM_QUEUE]
        time.sleep(settled_s)
        yield
        self.under_way += waiting + self.publisher.published - before

    def kill_upstream(self) -> None:
        with self.breaking(SYNCED_S):
            self.up.kill()
        self.up.start()
        self.proxy.target = self.up.address
        self.back()

    def kill_downstream(self) -> None:
        with self.breaking(SYNCED_S):
            self.down.kill()
        self.down.start()
        self.back()

    def cut(self, seconds: float) -> None:
        self.proxy.cut()
        self.load(seconds)
        self.proxy.restore()
        self.back()

    def silence(self, seconds: float) -> None:
        """Let the proxy accept connections and forward nothing."""
        self.proxy.silence()
        self.load(seconds)
        self.proxy.restore()
        self.back()

    def flap(self, every_s: float, seconds: float) -> None:
        for _ in range(round(seconds / every_s)):
            with self.breaking(ARRIVED_S):
                self.proxy.blink()
            self.breaks += 1
            self.load(every_s)
        self.back()

    def delete_queue(self) -> None:
        """Delete the upstream queue while it is empty, because its messages would be lost by the operator."""
        self.publisher.pause()
        self.settle()
        reconnects = self.down.rows()[0]["reconnects"]
        self.up.ask("DELETE", f"/queues/%2f/{quote(UPSTREAM_QUEUE)}")
        until(lambda: self.down.rows()[0]["reconnects"] > reconnects, lambda: str(self.down.rows()))
        self.back()
        self.publisher.go_on()

    def change_bindings(self, rounds: int) -> None:
        """Change bindings at a random moment of the link's start."""
        channel = self.down.connect().channel()
        channel.declare("others")
        wanted: set[str] = set()
        for _ in range(rounds):
            self.proxy.blink()
            self.breaks += 1
            for _ in range(30):
                key = f"other.{self.dice.randrange(20)}"
                (channel.unbind if key in wanted else channel.bind)("others", EXCHANGE, key)
                wanted ^= {key}
                time.sleep(self.dice.uniform(0, 0.005))
        self.back()
        self.up.bound(EXCHANGE, KEY, *wanted)

    # Its end

    def settle(self) -> None:
        """Wait until all upstream messages have arrived."""

        def settled() -> bool:
            (row,) = self.down.rows()
            return row["status"] == "running" and not row["unconfirmed"] and not self.up.queues()[UPSTREAM_QUEUE]

        until(settled, lambda: f"{self.up.queues()} {self.down.rows()}", SETTLED_WITHIN_S)

    def outcome(self) -> Outcome:
        self.publisher.end()
        self.settle()
        count = self.down.queues()[QUEUE]
        channel = self.down.connect().channel()
        channel.consume(QUEUE, no_ack=True)
        came = channel.deliveries(count)
        channel.client.close()
        assert self.down.queues()[QUEUE] == 0
        return Outcome(self.publisher, came, self.breaks, self.longest_s, self.under_way)
