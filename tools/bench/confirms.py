"""The latency of publisher confirms at a fixed rate: persistent messages, a durable queue, one publisher."""

from __future__ import annotations

import os
import select
import socket
import tempfile
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .client import Connection
from .generator import declare, drop
from .loads import LOADS, Load
from .process import Broker
from .publishing import Confirms, batch_of

RATES_PER_S = (500, 5_000)
QUEUE_TYPES = ("classic", "quorum")
LOAD = replace(next(load for load in LOADS if load.letter == "D"), name="confirms", consumers=0)
DISK_SYNCS = 500
DISK_WRITE_BYTES = 256


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds, and the messages or syncs a second."""

    per_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float

    @classmethod
    def of(cls, samples_ns: Sequence[int], took_s: float) -> Latency:
        ordered = sorted(samples_ns)
        p50, p99, p999 = [ordered[int(len(ordered) * share)] / 1e6 for share in (0.5, 0.99, 0.999)]
        return cls(len(ordered) / took_s, p50, p99, p999)


class TimedConfirms(Confirms):
    """The confirms of publishes that are sent one by one, with the time from the send of each to its confirm."""

    __slots__ = ("samples_ns", "sent_ns")

    def __init__(self, source: socket.socket) -> None:
        super().__init__(source)
        self.sent_ns: array[int] = array("Q")
        self.samples_ns: array[int] = array("Q")

    def _confirm(self, tag: int, multiple: int) -> None:
        now_ns = time.monotonic_ns()
        for each in range(self._floor + 1, tag + 1) if multiple else (tag,):
            if each not in self._early:
                self.samples_ns.append(now_ns - self.sent_ns[each - 1])
        super()._confirm(tag, multiple)


def confirms(broker: Broker, rate_per_s: int, queue_type: str, seconds: float, warmup_s: float) -> Latency:
    """Measure the latency from the send of each message to its confirm. Raises LoadFailed."""
    load = replace(LOAD, arguments=(("x-queue-type", queue_type),))
    control, connection = Connection(broker.port, broker.vhost), Connection(broker.port, broker.vhost)
    try:
        declare(load, control)
        connection.select_confirms()
        timed = TimedConfirms(connection.socket)
        _publish(load, connection, timed, rate_per_s, warmup_s)
        del timed.samples_ns[:]
        took_s = _publish(load, connection, timed, rate_per_s, seconds)
        connection.close()
        drop(load, control)
        control.close()
    finally:
        connection.socket.close()
        control.socket.close()
    return Latency.of(timed.samples_ns, took_s)


def _publish(load: Load, connection: Connection, timed: TimedConfirms, rate_per_s: int, seconds: float) -> float:
    """Publish single messages, at least one, and wait for all confirms. Returns the time of the publishes."""
    batch, sent = batch_of(load, 0, connection.frame_max), timed.sent_ns
    started_s, first = time.monotonic(), len(sent)
    while (passed_s := time.monotonic() - started_s) < seconds or len(sent) == first:
        due = first + int(passed_s * rate_per_s) + 1
        if len(sent) < due:
            frames = batch.build(len(sent), 1)
            sent.append(time.monotonic_ns())
            connection.socket.sendall(frames)
        wait_s = 0.0 if len(sent) < due else max((due - first) / rate_per_s - passed_s, 0.0)
        if select.select([connection.socket], [], [], wait_s)[0]:
            timed.take(wait=False)
    took_s = time.monotonic() - started_s
    while timed.count < len(sent):
        timed.take(wait=True)
    return took_s


def disk() -> Latency:
    """Measure an append of a small record and its fdatasync, in the folder for temporary files."""
    samples_ns: list[int] = []
    with tempfile.TemporaryFile(prefix="warren-bench-", buffering=0) as file:
        started_s = time.monotonic()
        for _ in range(DISK_SYNCS):
            begun_ns = time.monotonic_ns()
            file.write(bytes(DISK_WRITE_BYTES))
            os.fdatasync(file.fileno())
            samples_ns.append(time.monotonic_ns() - begun_ns)
        took_s = time.monotonic() - started_s
    return Latency.of(samples_ns, took_s)
