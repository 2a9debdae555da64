"""A site: two brokers with one store on PostgreSQL, of which one is active and the other one a standby."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.amqp_client import Closed, Silence
from tests.support.broker_process import ANY_PORT, BrokerProcess
from tests.support.ports import HOST, ReservedPort
from tests.support.postgresql import init

from .load import BACKLOG, PAUSE_S, PERSISTENT, SETTLED_WITHIN_S, connect

FILL_BATCH = 1000


class SiteBroker(BrokerProcess):
    """A broker with the same address at each start; `listener` is known before the first one."""

    def __init__(self, folder: Path, url: str, name: str) -> None:
        self._reserved = ReservedPort()
        self.listener = f"{HOST}:{self._reserved.number}"
        super().__init__(folder / name, "--http", ANY_PORT, store=url, node=f"warren@{name}", amqp=self.listener)

    def close(self) -> None:
        super().close()
        self._reserved.close()


class Site:
    """The brokers `a` and `b`; the first is active after `start`."""

    def __init__(self, folder: Path, url: str, settings: Sequence[str] = (), standby: bool = True) -> None:
        """The brokers use the empty store at that URL."""
        init(url)
        self.brokers = [SiteBroker(folder, url, name) for name in ("a", "b")[: 1 + standby]]
        for broker in self.brokers:
            broker.configure(*settings)
        self.addresses = [broker.listener for broker in self.brokers]

    def start(self) -> None:
        """Start the active broker and its standby."""
        self.active.start()
        for broker in self.brokers[1:]:
            broker.launch()
            broker.wait_for_event("standby")

    def close(self) -> None:
        for broker in self.brokers:
            broker.close()

    @property
    def active(self) -> SiteBroker:
        return self.brokers[0]

    @property
    def standby(self) -> SiteBroker:
        return self.brokers[1]

    def served_s(self, since_s: float, queue: str) -> tuple[float, int]:
        """Wait until the standby serves clients. Returns the seconds since a time, and the messages of a queue."""
        while time.monotonic() - since_s < SETTLED_WITHIN_S:
            try:
                client = connect(self.standby.listener)
                count = client.channel().count(queue)
            except (OSError, Closed, Silence):
                time.sleep(PAUSE_S)
                continue
            took_s = time.monotonic() - since_s
            client.close()
            return took_s, count
        raise AssertionError(f"the standby does not serve clients:\n{self.standby.tail()}")

    def swap(self) -> None:
        """Start the former owner as the standby of the broker that has taken over."""
        self.brokers.reverse()
        self.active.wait_ready()
        self.standby.launch()
        self.standby.wait_for_event("standby")

    def fill(self, count: int) -> None:
        """Publish the backlog to the active broker."""
        client = connect(self.active.listener)
        channel = client.channel()
        channel.declare(BACKLOG, durable=True)
        channel.confirm()
        for start in range(0, count, FILL_BATCH):
            numbers = range(start, min(start + FILL_BATCH, count))
            for number in numbers:
                channel.publish("", BACKLOG, b"%d" % number, PERSISTENT)
            channel.confirms(number + 1 for number in numbers)
        client.close()

    def backlog(self) -> set[bytes]:
        """Take the backlog from the active broker."""
        client = connect(self.active.listener)
        channel = client.channel()
        count = channel.count(BACKLOG)
        channel.consume(BACKLOG, no_ack=True)
        bodies = {content.body for content in channel.deliveries(count)}
        client.close()
        return bodies


@contextmanager
def site(url: str, *settings: str, standby: bool = True) -> Iterator[Site]:
    """Context with a running site on the empty store at that URL."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warren-failover-")))
        running = Site(folder, url, settings, standby)
        stack.callback(running.close)
        running.start()
        yield running
