"""A publisher of the load generator, which builds its frames once, and sets only the stamp for each batch.

The stamp, CLOCK_MONOTONIC in nanoseconds, is the first 8 bytes of each body; one join sets it in a whole batch.
Numbered messages have their number in the next 8 bytes.
"""

import socket
import struct
import time
from contextlib import suppress
from typing import Protocol

from .client import (
    BASIC_ACK,
    BASIC_NACK,
    BODY,
    CHANNEL,
    HEADER,
    Connection,
    LoadFailed,
    closed,
    frame,
    longstr,
    method,
    shortstr,
)
from .loads import Load
from .process import Broker
from .progress import STOPPED, Progress

BATCH = 64  # messages in one send
STAMP_BYTES = 8
NUMBER = struct.Struct("<Q")
STOP_WITHIN_S = 0.2  # the interval at which a blocked recv or send checks for the end of the load
TASK_TIMESTAMP_S = 1_700_000_000
ID_HOLE = b"<batch-of-64-id>"  # a placeholder with the length of the hexadecimal digits


class Batch(Protocol):
    """Prepared publishes."""

    def build(self, first: int, count: int) -> bytes:
        """Return the frames of messages first to first + count - 1 (count at most BATCH), stamped now."""


class PlainBatch:
    """Messages that differ only in the stamp, and in routing key or priority if the load has several."""

    __slots__ = ("_between", "_heads", "_numbered", "_tail")

    def __init__(self, load: Load, queue: str, frame_max: int) -> None:
        # All keys have one length, and therefore all deliveries.
        keys = [f"{queue}.{number:05}" for number in range(load.keys)] or [queue]
        headers = [_header(load, _plain_properties(load, priority)) for priority in range(load.priorities or 1)]
        opening, self._tail = _body(load, frame_max)
        self._numbered = load.numbered
        cycle = max(len(keys), len(headers))
        self._heads = [
            _publish(load, keys[at % len(keys)]) + headers[at % len(headers)] + opening for at in range(cycle)
        ]
        turns = BATCH // cycle + 2  # a batch may begin anywhere in the cycle and wrap
        self._between = ([self._tail + head for head in self._heads] * turns)[: cycle + BATCH]

    def build(self, first: int, count: int) -> bytes:
        at = first % len(self._heads)
        pieces = [self._heads[at], *self._between[at + 1 : at + count], self._tail]
        stamp = _stamp()
        if not self._numbered:
            return stamp.join(pieces)
        numbered = [b""] * (2 * count + 1)
        numbered[::2] = pieces
        numbered[1::2] = [stamp + NUMBER.pack(number) for number in range(first, first + count)]
        return b"".join(numbered)


class RichBatch:
    """A batch of messages as a task queue sends them, with a unique id three times in the properties of each."""

    __slots__ = ("_pieces", "_publisher", "_tail")

    def __init__(self, load: Load, queue: str, publisher: int, frame_max: int) -> None:
        self._publisher = publisher
        opening, self._tail = _body(load, frame_max)
        self._pieces: list[bytes] = []  # even: fixed; odd: the batch's part of the id (3 times), then the stamp
        for slot in range(BATCH):
            head = _publish(load, queue) + _header(load, _task_properties(load, slot, queue)) + opening
            if slot:
                head = self._tail + head
            for piece in head.split(ID_HOLE):
                self._pieces += [piece, b""]

    def build(self, first: int, count: int) -> bytes:
        batch = b"%016x" % (self._publisher << 48 | first)
        pieces = self._pieces[: 8 * count]
        pieces[1::2] = (batch, batch, batch, _stamp()) * count
        pieces.append(self._tail)
        return b"".join(pieces)


def batch_of(load: Load, publisher: int, frame_max: int) -> Batch:
    queue = load.queue(publisher)
    return RichBatch(load, queue, publisher, frame_max) if load.rich else PlainBatch(load, queue, frame_max)


def _stamp() -> bytes:
    return time.monotonic_ns().to_bytes(8, "little")


def _publish(load: Load, key: str) -> bytes:
    key = "" if load.exchange_type == "fanout" else key
    return method(60, 40, b"\0\0" + shortstr(load.exchange) + shortstr(key) + b"\0")


def _header(load: Load, properties: bytes) -> bytes:
    return frame(HEADER, CHANNEL, struct.pack(">HHQ", 60, 0, load.body_bytes) + properties)


def _body(load: Load, frame_max: int) -> tuple[bytes, bytes]:
    """Return the body frames before the stamp, and those after the stamp and the number."""
    payload, most = bytes(load.body_bytes), frame_max - 8
    frames = b"".join(frame(BODY, CHANNEL, payload[at : at + most]) for at in range(0, len(payload), most))
    return frames[:7], frames[7 + STAMP_BYTES + (NUMBER.size if load.numbered else 0) :]


def _plain_properties(load: Load, priority: int) -> bytes:
    """Return the content type, and delivery mode, priority and expiration if the load has them."""
    flags, values = 0x8000, shortstr("application/octet-stream")
    if load.durable:
        flags, values = flags | 0x1000, values + b"\x02"
    if load.priorities:
        flags, values = flags | 0x0800, values + bytes((priority,))
    if load.expiration_ms is not None:
        flags, values = flags | 0x0100, values + shortstr(str(load.expiration_ms))
    return struct.pack(">H", flags) + values


def _task_properties(load: Load, slot: int, queue: str) -> bytes:
    """Content type and encoding, headers, delivery mode, correlation id, reply-to, message id, timestamp."""
    uid = ID_HOLE.decode() + f"-{slot:016x}"
    headers = (
        shortstr("task") + b"S" + longstr(b"shop.orders.confirm")
        + shortstr("retries") + b"I" + struct.pack(">i", 0)
        + shortstr("root_id") + b"S" + longstr(uid.encode())
    )  # fmt: skip
    flags = 0x8000 | 0x4000 | 0x2000 | 0x1000 | 0x0400 | 0x0200 | 0x0080 | 0x0040
    return b"".join((
        struct.pack(">H", flags), shortstr("application/json"), shortstr("utf-8"), longstr(headers),
        b"\x02" if load.durable else b"\x01", shortstr(uid), shortstr(queue), shortstr(uid),
        struct.pack(">Q", TASK_TIMESTAMP_S),
    ))  # fmt: skip


class Confirms:
    """The confirms of one channel, and the refusals if the load's queues refuse."""

    __slots__ = ("_buffer", "_early", "_end", "_expected", "_floor", "_socket")

    FRAME = struct.Struct(">BHIHHQBB")

    def __init__(self, source: socket.socket, *, refusals: bool = False) -> None:
        self._socket = source
        self._expected = (BASIC_ACK, BASIC_NACK) if refusals else (BASIC_ACK,)
        self._buffer = memoryview(bytearray(self.FRAME.size * 4096))
        self._end = 0
        self._floor = 0  # all numbers up to this one are confirmed
        self._early: set[int] = set()  # confirmed numbers above it

    @property
    def count(self) -> int:
        return self._floor + len(self._early)

    def take(self, *, wait: bool) -> None:
        """Take the received confirms; with `wait`, block until there are some (at most STOP_WITHIN_S).

        Raises LoadFailed for an unexpected nack, a close or the end of the connection.
        """
        try:
            received = self._socket.recv_into(self._buffer[self._end :], 0, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not received:
            raise LoadFailed("the broker ended a publisher's connection")
        self._end += received
        whole = self._end - self._end % self.FRAME.size
        frames = self.FRAME.iter_unpack(self._buffer[:whole])
        for _kind, _channel, size, class_id, method_id, tag, multiple, _frame_end in frames:
            if (class_id, method_id) not in self._expected:
                raise closed(class_id, method_id, bytes(self._buffer[11 : 7 + size]))
            self._confirm(tag, multiple)
        self._buffer[: self._end - whole] = self._buffer[whole : self._end]
        self._end -= whole

    def _confirm(self, tag: int, multiple: int) -> None:
        if multiple:
            self._floor = max(self._floor, tag)
            self._early = {early for early in self._early if early > self._floor}
        else:
            self._early.add(tag)
        while self._floor + 1 in self._early:
            self._floor += 1
            self._early.remove(self._floor)


def publish(load: Load, broker: Broker, index: int, worker: int, progress: Progress) -> None:
    """Publish until the load is stopped, as fast as the broker, the confirms and the rate allow."""
    connection = Connection(broker.port, broker.vhost)
    batch = batch_of(load, index, connection.frame_max)
    if load.confirm_window:
        connection.select_confirms()
    confirms = Confirms(connection.socket, refusals=("x-overflow", "reject-publish") in load.arguments)
    connection.give_up_after(STOP_WITHIN_S)
    progress.ready(worker)
    most = min(BATCH, load.confirm_window or BATCH)
    rate_per_s, started_s, sent = load.rate_per_s / load.publishers, time.monotonic(), 0
    while progress.phase != STOPPED:
        count = most
        if rate_per_s:
            count = min(most, int(rate_per_s * (time.monotonic() - started_s)) - sent)
            if count < 1:
                time.sleep(0.0002)
                continue
        if load.confirm_window:
            full = sent + count - confirms.count > load.confirm_window
            confirms.take(wait=full)
            if full:
                continue
        if not send(connection.socket, batch.build(sent, count), progress):
            break
        sent += count
        progress.count(worker, sent)
    connection.socket.close()


def send(target: socket.socket, octets: bytes, progress: Progress) -> bool:
    """Send all data. Returns False if the load was stopped while the broker did not accept it."""
    sent = 0
    while True:
        with suppress(BlockingIOError):  # the time-out, after which the load may have ended
            sent += target.send(memoryview(octets)[sent:] if sent else octets)
        if sent == len(octets):
            return True
        if progress.phase == STOPPED:
            return False
