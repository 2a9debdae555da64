"""The AMQP 0-9-1 client of the benchmark: frames as bytes, and a blocking connection with one channel.

It serves before and after a measurement. The hot loops are in publishing.py and consuming.py.
"""

import socket
import struct
from collections.abc import Iterable

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = b"\xce"
CHANNEL = 1
FRAME_MAX = 131072  # bytes; lowered to the broker's limit
PATIENCE_S = 60.0  # the limit for a reply; the deletion of a long queue is slow

CONNECTION_CLOSE = (10, 50)
CHANNEL_CLOSE = (20, 40)
BASIC_DELIVER = (60, 60)
BASIC_ACK = (60, 80)
BASIC_REJECT = (60, 90)
BASIC_NACK = (60, 120)


class LoadFailed(Exception):
    """An error: the broker refused, closed or vanished. The text has the broker's answer."""


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def method(class_id: int, method_id: int, arguments: bytes = b"", channel: int = CHANNEL) -> bytes:
    return frame(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def shortstr(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data


def longstr(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def table(entries: Iterable[tuple[str, int | str | bool]]) -> bytes:
    """Return a field table of booleans, long integers and strings."""
    data = b""
    for name, value in entries:
        if isinstance(value, bool):
            data += shortstr(name) + b"t" + bytes((value,))
        elif isinstance(value, int):
            data += shortstr(name) + b"l" + struct.pack(">q", value)
        else:
            data += shortstr(name) + b"S" + longstr(value.encode())
    return longstr(data)


def closed(class_id: int, method_id: int, arguments: bytes) -> LoadFailed:
    """Return the error for an unexpected method, with the broker's reply text if it is a close."""
    if (class_id, method_id) in (CONNECTION_CLOSE, CHANNEL_CLOSE):
        code = int.from_bytes(arguments[:2], "big")
        return LoadFailed(f"closed by the broker: {code} {arguments[3 : 3 + arguments[2]].decode(errors='replace')}")
    return LoadFailed(f"unexpected method {class_id}.{method_id}")


def exactly(sock: socket.socket, count: int) -> bytes:
    """Receive that many bytes. Raises LoadFailed."""
    try:
        data = sock.recv(count, socket.MSG_WAITALL)
    except BlockingIOError:
        data = b""
    if len(data) != count:
        raise LoadFailed("the broker closed the connection or sent no reply")
    return data


class Connection:
    """A connection with channel 1 open and heartbeats off. Raises LoadFailed."""

    __slots__ = ("frame_max", "server", "socket")

    def __init__(self, port: int, vhost: str = "/", user: str = "guest", password: str = "guest") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame_max = FRAME_MAX
        self.server = ""
        try:
            self._open(vhost, user, password)
        except BaseException:
            self.socket.close()
            raise

    def _open(self, vhost: str, user: str, password: str) -> None:
        self.give_up_after(PATIENCE_S)
        start = self.call(b"AMQP\x00\x00\x09\x01", (10, 10))
        self.server = f"{_property(start, b'product')} {_property(start, b'version')}"
        response = longstr(f"\x00{user}\x00{password}".encode())
        start_ok = longstr(b"") + shortstr("PLAIN") + response + shortstr("en_US")
        channel_max, offered, _heartbeat = struct.unpack(">HIH", self.call(method(10, 11, start_ok, 0), (10, 30)))
        self.frame_max = min(FRAME_MAX, offered or FRAME_MAX)
        tune_ok = method(10, 31, struct.pack(">HIH", channel_max, self.frame_max, 0), 0)
        self.call(tune_ok + method(10, 40, shortstr(vhost) + shortstr("") + b"\x00", 0), (10, 41))
        self.call(method(20, 10, shortstr("")), (20, 11))

    def give_up_after(self, seconds: float) -> None:
        """Limit each recv and send in the kernel, because a time-out of Python would cost a poll for each call."""
        interval = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)

    def call(self, request: bytes, reply: tuple[int, int]) -> bytes:
        """Send a request, and return the arguments of the reply, a (class, method)."""
        self.socket.sendall(request)
        while True:
            kind, _channel, size = struct.unpack(">BHI", exactly(self.socket, 7))
            payload = exactly(self.socket, size + 1)
            if kind == METHOD:
                class_id, method_id = struct.unpack_from(">HH", payload)
                if (class_id, method_id) == reply:
                    return payload[4:-1]
                raise closed(class_id, method_id, payload[4:-1])

    def declare_exchange(self, name: str, kind: str, durable: bool) -> None:
        flags = bytes((2 if durable else 0,))
        self.call(method(40, 10, b"\0\0" + shortstr(name) + shortstr(kind) + flags + longstr(b"")), (40, 11))

    def delete_exchange(self, name: str) -> None:
        self.call(method(40, 20, b"\0\0" + shortstr(name) + b"\0"), (40, 21))

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        passive: bool = False,
        arguments: Iterable[tuple[str, int | str | bool]] = (),
    ) -> int:
        """Declare a queue, and return the number of its ready messages."""
        flags = bytes((passive | durable << 1,))
        answer = self.call(method(50, 10, b"\0\0" + shortstr(name) + flags + table(arguments)), (50, 11))
        return int.from_bytes(answer[-8:-4], "big")

    def bind_queue(self, name: str, exchange: str, key: str) -> None:
        arguments = shortstr(name) + shortstr(exchange) + shortstr(key) + b"\0" + longstr(b"")
        self.call(method(50, 20, b"\0\0" + arguments), (50, 21))

    def purge_queue(self, name: str) -> None:
        self.call(method(50, 30, b"\0\0" + shortstr(name) + b"\0"), (50, 31))

    def delete_queue(self, name: str) -> None:
        self.call(method(50, 40, b"\0\0" + shortstr(name) + b"\0"), (50, 41))

    def select_confirms(self) -> None:
        self.call(method(85, 10, b"\0"), (85, 11))

    def consume(self, queue: str, *, no_ack: bool, prefetch: int) -> None:
        """Start a consumer with a tag of the broker's choice. `prefetch` is ignored with `no_ack`."""
        if not no_ack:
            self.call(method(60, 10, struct.pack(">IHB", 0, prefetch, 0)), (60, 11))
        flags = bytes((no_ack << 1,))
        self.call(method(60, 20, b"\0\0" + shortstr(queue) + shortstr("") + flags + longstr(b"")), (60, 21))

    def close(self) -> None:
        """Close the connection by connection.close."""
        try:
            self.call(method(10, 50, struct.pack(">H", 200) + shortstr("done") + b"\0\0\0\0", 0), (10, 51))
        finally:
            self.socket.close()


def acks(tags: Iterable[int], multiple: bool) -> bytes:
    """Return a basic.ack for each tag."""
    return _settled(BASIC_ACK, tags, multiple)


def rejects(tags: Iterable[int]) -> bytes:
    """Return a basic.reject without requeue for each tag."""
    return _settled(BASIC_REJECT, tags, False)


def _settled(method_ids: tuple[int, int], tags: Iterable[int], bit: bool) -> bytes:
    """Return a method for each tag, packed by a single join."""
    head = struct.pack(">BHIHH", METHOD, CHANNEL, 13, *method_ids)
    tail = bytes((bit,)) + FRAME_END
    return head + (tail + head).join(map(struct.Struct(">Q").pack, tags)) + tail


def _property(start: bytes, name: bytes) -> str:
    """Return a string of server-properties, found by its bytes, because the benchmark decodes no other table."""
    _, found, rest = start.partition(bytes((len(name),)) + name + b"S")
    return rest[4 : 4 + int.from_bytes(rest[:4], "big")].decode(errors="replace") if found else ""
