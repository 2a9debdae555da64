"""A client beside the load, in a process of its own, whose requests show the effect of a fault on others."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe

from tools.bench.churn import BASIC_GET, PING_S, QUEUE, publish
from tools.bench.client import Connection, exactly

FORK = multiprocessing.get_context("fork")
PATIENCE_S = 60.0


class Neighbour:
    """The round trips of the client in ms, each from a publish to the receipt of the message."""

    def __init__(self) -> None:
        self.times_ms: list[float] = []

    def at(self, share: float) -> float:
        """Return the quantile of a share."""
        times = sorted(self.times_ms)
        return times[min(int(len(times) * share), len(times) - 1)] if times else float("inf")

    def __str__(self) -> str:
        return f"{len(self.times_ms)} round trips, p99 {self.at(0.99):.0f} ms, longest {self.at(1):.0f} ms"


@contextmanager
def neighbour(port: int) -> Iterator[Neighbour]:
    """A context with a neighbour, whose times are complete at its end."""
    mine, its = FORK.Pipe()
    process = FORK.Process(target=_ask, args=(port, its), daemon=True)
    process.start()
    its.close()
    found = Neighbour()
    try:
        assert mine.poll(PATIENCE_S) and mine.recv() is None, "the neighbour does not get a connection"
        yield found
        mine.send(None)
        assert mine.poll(PATIENCE_S), "the neighbour does not get a reply"
        found.times_ms = mine.recv()
    finally:
        process.kill()
        process.join()
        mine.close()


def calm(port: int, seconds: float) -> Neighbour:
    """Return the round trips of a neighbour without other load."""
    with neighbour(port) as found:
        time.sleep(seconds)
    return found


def _ask(port: int, pipe: Pipe) -> None:
    client = Connection(port)
    times_ms: list[float] = []
    client.declare_queue(QUEUE)
    message = publish(QUEUE)
    pipe.send(None)
    while not pipe.poll():
        began_s = time.perf_counter()
        client.call(message + BASIC_GET, (60, 71))
        for _ in range(2):  # the header and the body of the message
            head = exactly(client.socket, 7)
            exactly(client.socket, int.from_bytes(head[3:], "big") + 1)
        times_ms.append((time.perf_counter() - began_s) * 1000)
        time.sleep(PING_S)
    pipe.send(times_ms)
