"""A consumer of the load generator: counts deliveries by their length, samples latencies, and acknowledges.

The deliveries of a load have equal lengths, so a chunk of n lengths has n deliveries if the nth delivery tag is in its
place. Only if it is not are the frames read one by one.
"""

import socket
import struct
import time
from array import array
from collections.abc import Sequence

from .client import BASIC_DELIVER, BODY, FRAME_END, METHOD, Connection, LoadFailed, acks, closed, rejects
from .loads import Load
from .process import Broker
from .progress import MEASURING, STOPPED, Progress
from .publishing import NUMBER, STAMP_BYTES, STOP_WITHIN_S, send

SAMPLE_EVERY = 16  # every 16th latency is kept, or each one at a fixed rate
BUFFER_BYTES = 1 << 20  # the minimum size of a receive
STAMP = struct.Struct("<Q")


class Deliveries:
    """The deliveries of one consumer, counted in its receive buffer."""

    __slots__ = ("_body_at", "_buffer", "_end", "_stride", "_tag_at", "_used", "buffer", "tag")

    TAG = struct.Struct(">Q")
    DELIVER = struct.pack(">HH", *BASIC_DELIVER)

    def __init__(self, body_bytes: int) -> None:
        self.buffer = bytearray(max(BUFFER_BYTES, 4 * body_bytes))
        self._buffer = memoryview(self.buffer)
        self._end = 0  # the end of the bytes in the buffer
        self._used = 0  # the beginning of the next delivery
        self._stride = 0  # the length of a delivery with all its frames, or 0 if unknown
        self._tag_at = self._body_at = 0  # the offsets of tag and body in a delivery
        self.tag = 0  # the last delivery tag taken

    def receive(self, source: socket.socket, flags: int = 0) -> None:
        """One recv. Raises BlockingIOError, or LoadFailed at the end of the connection."""
        rest = self._end - self._used
        if self._used:
            self._buffer[:rest] = self._buffer[self._used : self._end]
            self._used, self._end = 0, rest
        received = source.recv_into(self._buffer[rest:], 0, flags)
        if not received:
            raise LoadFailed("the broker ended a consumer's connection")
        self._end += received

    def take(self) -> Sequence[int]:
        """Take all complete deliveries. Returns the offsets of their bodies, which are valid until the next receive.

        Raises LoadFailed for other frames.
        """
        stride = self._stride
        count = self._end // stride if stride else 0
        if not count:
            return self._walk()
        rest = count * stride
        last = rest - stride
        strides = (
            self.TAG.unpack_from(self.buffer, last + self._tag_at)[0] == self.tag + count
            and self.buffer.startswith(self.DELIVER, last + 7)
            and self.buffer[rest - 1] == FRAME_END[0]
        )
        if not strides:
            return self._walk()
        self.tag += count
        self._used = rest
        if self._end - rest >= 11 and not self.buffer.startswith(self.DELIVER, rest + 7):
            self._walk()  # a close, most likely
        return range(self._body_at, rest, stride)

    def _walk(self) -> list[int]:
        """Take deliveries frame by frame, and measure the stride again."""
        bodies: list[int] = []
        while (at := self._frame(self._used)) is not None:
            start = self._used
            kind, size, arguments = self.buffer[start], at - start - 8, start + 11
            class_id, method_id = struct.unpack_from(">HH", self.buffer, start + 7)
            if kind != METHOD or (class_id, method_id) != BASIC_DELIVER:
                raise closed(class_id, method_id, bytes(self.buffer[arguments : start + 7 + size]))
            header, first_body = at, self._frame(at)
            if first_body is None:
                break
            left = self.TAG.unpack_from(self.buffer, header + 11)[0]
            end = first_body
            while left > 0 and (after := self._frame(end)) is not None and self.buffer[end] == BODY:
                left -= after - end - 8
                end = after
            if left > 0:
                break
            self._tag_at = 12 + self.buffer[arguments]
            self._body_at, self._stride = first_body + 7 - start, end - start
            self.tag = self.TAG.unpack_from(self.buffer, start + self._tag_at)[0]
            bodies.append(first_body + 7)
            self._used = end
        return bodies

    def _frame(self, at: int) -> int | None:
        """Return the end of the frame that begins at an offset, or None if it is incomplete."""
        if self._end - at < 7:
            return None
        end = at + 8 + int.from_bytes(self._buffer[at + 3 : at + 7], "big")
        return end if end <= self._end else None


class Acks:
    """The acknowledgements of one consumer by its load, or its rejections, each of one delivery."""

    __slots__ = ("_acked", "_every", "_reject")

    def __init__(self, every: int, *, reject: bool = False) -> None:
        self._every = every
        self._reject = reject
        self._acked = 0

    def due(self, tag: int) -> bytes:
        """Return the frames for deliveries up to a tag, in full steps of `every`."""
        upto = self._acked + (tag - self._acked) // self._every * self._every
        if upto == self._acked:
            return b""
        tags = range(self._acked + self._every, upto + 1, self._every)
        self._acked = upto
        return rejects(tags) if self._reject else acks(tags, multiple=self._every > 1)

    def rest(self, tag: int) -> bytes:
        """Return a frame for the rest, if there is nothing more to read."""
        if tag == self._acked:
            return b""
        self._acked = tag
        return acks((tag,), multiple=True)


def consume(load: Load, broker: Broker, index: int, worker: int, progress: Progress) -> bytes:
    """Consume until the load is stopped. Returns the sampled latencies as native 64-bit nanoseconds."""
    connection = Connection(broker.port, broker.vhost)
    connection.consume(load.source(index), no_ack=not load.ack_every, prefetch=load.prefetch)
    connection.give_up_after(STOP_WITHIN_S)
    deliveries, acknowledge = Deliveries(load.body_bytes), Acks(load.ack_every, reject=load.rejects(index))
    received, samples = 0, array("Q")
    every = 1 if load.rate_per_s else SAMPLE_EVERY
    progress.ready(worker)
    while progress.phase != STOPPED:
        try:
            deliveries.receive(connection.socket, socket.MSG_DONTWAIT if load.ack_every else 0)
        except BlockingIOError:
            if load.ack_every:
                rest = acknowledge.rest(deliveries.tag)
                if rest and not send(connection.socket, rest, progress):
                    break
                try:
                    deliveries.receive(connection.socket)
                except BlockingIOError:
                    continue
            else:
                continue
        bodies = deliveries.take()
        if progress.phase == MEASURING:
            now_ns = time.monotonic_ns()
            for at in bodies[-received % every :: every]:
                samples.append(now_ns - STAMP.unpack_from(deliveries.buffer, at)[0])
        if load.numbered:
            check_numbers([NUMBER.unpack_from(deliveries.buffer, at + STAMP_BYTES)[0] for at in bodies], received)
        received += len(bodies)
        progress.count(worker, received)
        if load.ack_every and (due := acknowledge.due(deliveries.tag)) and not send(connection.socket, due, progress):
            break
    connection.socket.close()
    return samples.tobytes()


def check_numbers(numbers: list[int], first: int) -> None:
    """Raise LoadFailed if the numbers do not follow the last one."""
    if numbers != list(range(first, first + len(numbers))):
        wrong = next(at for at, number in enumerate(numbers) if number != first + at)
        raise LoadFailed(f"message {first + wrong} was to come, and {numbers[wrong]} came")
