"""The memory of an idle broker, of an idle connection and of a queued message."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from .client import Connection, LoadFailed
from .loads import Load
from .process import Broker, raise_open_files, rss_bytes
from .publishing import batch_of

CONNECTIONS = 1000
WARM_CONNECTIONS = 10  # opened first, so that one-time allocations are not counted
SPARE_FILES = 1000  # beyond those of the connections
MESSAGES = 1_000_000
BACKLOG = Load("backlog", "queued", "a backlog of 100-byte messages", consumers=0)
SETTLE_S = 1.0
QUEUED_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Demand:
    """A figure with its limit."""

    what: str
    measured: float
    limit: float
    unit: str
    at_least: bool = False

    @property
    def wanted(self) -> str:
        """The limit in words, or an empty text for a figure without a limit (0)."""
        return f"{'>=' if self.at_least else '<='} {self.limit:g} {self.unit}" if self.limit else ""


def idle(broker: Broker) -> Iterator[Demand]:
    """Measure the time to `ready` and the resident memory of a broker that was just started."""
    if broker.start_s is not None:
        yield Demand("command to ready", broker.start_s, 0.4, "s")
    time.sleep(SETTLE_S)
    yield Demand("resident when idle", _rss(broker) / 2**20, 60, "MiB")


def connections(broker: Broker, count: int = CONNECTIONS) -> Iterator[Demand]:
    """Measure the resident memory for each of many idle connections with one channel."""
    raise_open_files(count + SPARE_FILES)
    opened = [Connection(broker.port) for _ in range(WARM_CONNECTIONS)]
    try:
        time.sleep(SETTLE_S)
        before = _rss(broker)
        opened += [Connection(broker.port) for _ in range(count)]
        time.sleep(SETTLE_S)
        after = _rss(broker)
        yield Demand("idle connection with one channel", (after - before) / count / 1024, 6, "KiB")
    finally:
        for connection in opened:
            connection.socket.close()


def backlog(broker: Broker, count: int = MESSAGES) -> Iterator[Demand]:
    """Measure the resident memory for each message of a long queue. Raises LoadFailed."""
    connection = Connection(broker.port)
    queue = BACKLOG.queue(0)
    try:
        connection.declare_queue(queue)
        connection.purge_queue(queue)
        batch = batch_of(BACKLOG, 0, connection.frame_max)
        before = _rss(broker)
        for first in range(0, count, 50):
            connection.socket.sendall(batch.build(first, min(50, count - first)))
        give_up_s = time.monotonic() + QUEUED_WITHIN_S
        while (queued := connection.declare_queue(queue, passive=True)) < count:
            if time.monotonic() > give_up_s:
                raise LoadFailed(f"only {queued:,} of {count:,} messages were queued")
            time.sleep(0.2)
        time.sleep(SETTLE_S)
        yield Demand("queued 100-byte message", (_rss(broker) - before) / count, 200, "B")
        connection.delete_queue(queue)
        connection.close()
    finally:
        connection.socket.close()


def _rss(broker: Broker) -> int:
    if broker.pid is None:
        raise LoadFailed(f"memory of {broker.name} needs its pid: {broker.name}={broker.port}:PID")
    return rss_bytes(broker.pid)
