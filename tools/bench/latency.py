"""Latency at fixed rates beside many idle connections with heartbeats."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from .churn import SPARE_FILES, WAVE, Figure, median, open_wave
from .client import HEARTBEAT, frame
from .generator import run
from .loads import LOADS
from .process import Broker, raise_open_files

RATES = (2_000, 20_000)  # messages a second
FEWEST = 1000  # the minimum of messages in a window
HEARTBEAT_S = 10
HEARTBEAT_FRAME = frame(HEARTBEAT, 0, b"")
LOAD = next(load for load in LOADS if load.letter == "H")


@contextmanager
def idle_connections(broker: Broker, count: int) -> Iterator[None]:
    """Hold connections open, each with a channel and heartbeats."""
    raise_open_files(count + SPARE_FILES)
    sockets = []
    stopped = threading.Event()

    def send_heartbeats() -> None:
        """Send a heartbeat on each connection within half an interval, evenly spread."""
        while not stopped.is_set():
            for sock in sockets:
                if stopped.wait(HEARTBEAT_S / 2 / count):
                    return
                sock.sendall(HEARTBEAT_FRAME)

    thread = threading.Thread(target=send_heartbeats, daemon=True)
    try:
        while len(sockets) < count:
            sockets += open_wave(broker.port, min(WAVE, count - len(sockets)), HEARTBEAT_S)
        if sockets:
            thread.start()
        yield
    finally:
        stopped.set()
        if thread.ident is not None:
            thread.join()
        for sock in sockets:
            sock.close()


def latency(broker: Broker, rate_per_s: int, idle: int, seconds: float, warmup_s: float) -> Iterator[Figure]:
    """Measure the latency from publish to receive, of each message. Raises LoadFailed."""
    with idle_connections(broker, idle):
        result = run(replace(LOAD, rate_per_s=rate_per_s), broker, seconds, warmup_s, fewest=FEWEST)
    for name, value in (("p50", result.p50_ms), ("p99", result.p99_ms), ("p99.9", result.p999_ms)):
        if value is not None:
            yield Figure(f"{rate_per_s:,}/s beside {idle:,} connections, {name}", value, "ms", True)


def compare(
    brokers: Sequence[Broker], idle: int, rounds: int, seconds: float, warmup_s: float
) -> Iterator[tuple[str, list[Figure | None]]]:
    """Measure each rate on each broker in turn; yield the name and the medians of each figure."""
    for rate_per_s in RATES:
        runs = [
            [list(latency(broker, rate_per_s, idle, seconds, warmup_s)) for broker in brokers] for _ in range(rounds)
        ]
        for figures in zip(*(zip(*of_broker, strict=True) for of_broker in zip(*runs, strict=True)), strict=True):
            medians: list[Figure | None] = [median(one) for one in figures]
            yield figures[0][0].what, medians
