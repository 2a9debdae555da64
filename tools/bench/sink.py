"""A broker that does nothing: discards publishes, and sends made-up deliveries to each consumer.

It shows the limits of the load generator. Consumer number i of queue "bench.A.i" gets messages of load A, and so on:
the sink knows the loads by the names of their queues.
"""

import multiprocessing
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe

from .client import (
    BASIC_ACK,
    BASIC_REJECT,
    BODY,
    CHANNEL,
    FRAME_MAX,
    HEADER,
    METHOD,
    acks,
    frame,
    longstr,
    method,
    shortstr,
)
from .loads import LOADS, Load
from .process import Broker

BUFFER_BYTES = 1 << 20
CHUNK = 256  # deliveries in one send
CONSUMER_TAG = shortstr("amq.ctag-of-a-usual-length-3Q")
START_OK, TUNE_OK, CONSUME, CONFIRM_SELECT, PUBLISH = (10, 11), (10, 31), (60, 20), (85, 10), (60, 40)
ARGUMENTS: dict[tuple[int, ...], bytes] = {  # arguments of the ok, if it has any
    (10, 40): shortstr(""), (20, 10): longstr(b""), (50, 10): shortstr("q") + bytes(8), (50, 40): bytes(4),
    CONSUME: CONSUMER_TAG,
}  # fmt: skip
LOAD_OF = {load.letter: load for load in LOADS}


@contextmanager
def sink() -> Iterator[Broker]:
    """A sink in a process of its own, during the context."""
    spawn = multiprocessing.get_context("spawn")
    mine, its = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(its,), daemon=True)
    process.start()
    its.close()
    try:
        yield Broker("sink", mine.recv(), process.pid)
    finally:
        mine.close()
        process.terminate()
        process.join()
        process.close()


def _serve(pipe: Pipe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pipe.send(listener.getsockname()[1])
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=_converse, args=(peer,), daemon=True).start()


def _converse(peer: socket.socket) -> None:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with peer:
        try:
            peer.recv(8, socket.MSG_WAITALL)
            peer.sendall(method(10, 10, b"\0\x09" + longstr(b"") + longstr(b"PLAIN") + longstr(b"en_US"), 0))
            Peer(peer).serve()
        except (ConnectionError, EOFError):
            pass


class Peer:
    """The sink's side of one connection: answers methods until it only sends deliveries or discards publishes."""

    __slots__ = ("_buffer", "_end", "_socket")

    def __init__(self, peer: socket.socket) -> None:
        self._socket = peer
        self._buffer = bytearray(BUFFER_BYTES)
        self._end = 0

    def serve(self) -> None:
        confirms, published = False, 0
        while True:
            confirmed = published
            for payload in self._methods():
                asked = struct.unpack_from(">HH", payload)
                if asked == PUBLISH:
                    published += 1
                elif asked == START_OK:
                    self._socket.sendall(method(10, 30, struct.pack(">HIH", 2047, FRAME_MAX, 60), 0))
                elif asked != TUNE_OK:
                    confirms |= asked == CONFIRM_SELECT
                    self._answer(asked, ARGUMENTS.get(asked, b""))
                if asked == CONSUME:
                    length = payload[6]
                    load = LOAD_OF[payload[7 : 7 + length].decode().split(".")[1]]
                    self._deliver(load, no_ack=bool(payload[8 + length + payload[7 + length]] & 2))
            if published and not confirms:
                self._forget()
            if published > confirmed:
                self._socket.sendall(acks((published,), multiple=True))

    def _methods(self) -> list[bytes]:
        """Return the payloads of the method frames that are complete after one recv."""
        received = self._socket.recv_into(memoryview(self._buffer)[self._end :])
        if not received:
            raise EOFError
        self._end += received
        methods, at = [], 0
        while self._end - at >= 8:
            kind, _channel, size = struct.unpack_from(">BHI", self._buffer, at)
            if self._end - at < size + 8:
                break
            if kind == METHOD:
                methods.append(bytes(self._buffer[at + 7 : at + 7 + size]))
            at += size + 8
        self._buffer[: self._end - at] = self._buffer[at : self._end]
        self._end -= at
        return methods

    def _answer(self, asked: tuple[int, ...], arguments: bytes) -> None:
        class_id, method_id = asked
        self._socket.sendall(method(class_id, method_id + 1, arguments, 0 if class_id == 10 else CHANNEL))

    def _forget(self) -> None:
        """Discard all data until the peer is gone."""
        while self._socket.recv_into(self._buffer):
            pass
        raise EOFError

    def _deliver(self, load: Load, *, no_ack: bool) -> None:
        """Send deliveries as fast as the peer takes them, or as its acks and the load's prefetch allow."""
        chunk, sent, settled = Chunk(load), 0, 0
        while True:
            room = CHUNK if no_ack else min(CHUNK, settled + load.prefetch - sent)
            if load.rate_per_s:
                room = min(room, 1)
                time.sleep(room / load.rate_per_s)
            if room:
                self._socket.sendall(chunk.build(sent + 1, room))
                sent += room
            else:
                for payload in self._methods():
                    assert struct.unpack_from(">HH", payload) in (BASIC_ACK, BASIC_REJECT), payload
                    settled = int.from_bytes(payload[4:12], "big")


class Chunk:
    """Prepared deliveries of one load."""

    __slots__ = ("_pieces", "_tail")

    def __init__(self, load: Load) -> None:
        deliver = CONSUMER_TAG + b"<the-tag\0" + shortstr(load.exchange) + shortstr("key")
        before, after = method(60, 60, deliver).split(b"<the-tag")
        header = frame(HEADER, CHANNEL, struct.pack(">HHQH", 60, 0, load.body_bytes, 0x8000) + shortstr("text/plain"))
        body = frame(BODY, CHANNEL, bytes(load.body_bytes))
        self._tail = body[15:]
        self._pieces = [before, b"", after + header + body[:7], b""]  # the tag and the stamp are joined in the gaps
        self._pieces += [self._tail + before, *self._pieces[1:]] * (CHUNK - 1)

    def build(self, first: int, count: int) -> bytes:
        """Return deliveries with the tags from `first` on, stamped now."""
        pieces = self._pieces[: 4 * count]
        pieces[1::4] = map(struct.Struct(">Q").pack, range(first, first + count))
        pieces[3::4] = [time.monotonic_ns().to_bytes(8, "little")] * count
        pieces.append(self._tail)
        return b"".join(pieces)
