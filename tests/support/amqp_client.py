"""A synchronous AMQP 0-9-1 client for tests: it sends anything, legal or not, shows all that comes, and never retries.

`Client` is a connection, `Channel` a channel of it: `call` wants the reply, `send` wants nothing, `refused` wants the
error. `Content` is a message that came. The bytes go through a pipe (peer.py): a socket, or a broker inside this
process, where nothing ever waits.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from pamqp import base
from pamqp.commands import Basic, Confirm, Connection, Exchange, Queue, Tx
from pamqp.commands import Channel as ChannelMethods

from . import codec

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CAPABILITIES = {"authentication_failure_close": True, "connection.blocked": True, "consumer_cancel_notify": True,
                "basic.nack": True, "publisher_confirms": True, "exchange_exchange_bindings": True}  # fmt: skip
FRAME_MAX = 131072  # what the server proposes, and a client takes unless a test says otherwise
SOFT = frozenset((311, 312, 313, 403, 404, 405, 406))  # these close a channel, all others the connection


class Silence(AssertionError):
    """The error that nothing was received and nothing is on its way."""


class Closed(AssertionError):
    """The peer closed the connection or the channel, and something else was expected."""


class Content:
    """A deliver, get-ok or return with its content header and body."""

    def __init__(self, method: base.Frame) -> None:
        self.method: Any = method
        self.header = b""
        self.body = b""
        self.body_bytes = 0

    @property
    def property_bytes(self) -> bytes:
        return self.header[12:]

    @property
    def properties(self) -> Any:
        return codec.decode_properties(self.header)

    @property
    def headers(self) -> dict[str, Any]:
        return self.properties.headers or {}

    @property
    def tag(self) -> int:
        return int(self.method.delivery_tag)

    @property
    def redelivered(self) -> bool:
        return bool(self.method.redelivered)

    def __repr__(self) -> str:
        return f"{self.method.name}({dict(self.method)}, {self.body[:40]!r})"


class Pipe(Protocol):
    """Bytes to and from a peer."""

    def send(self, data: bytes) -> None: ...

    def receive(self, wait_ms: int | None) -> bytes:
        """Return bytes that arrive within that time; none at the end of the stream. Raises Silence."""

    def close(self) -> None: ...


class Client:
    """A connection. Received frames are sorted by channel; channel 0 is the connection's own."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.server_properties: dict[str, Any] = {}
        self.frame_max = FRAME_MAX
        self.largest_frame = 0  # bytes, of those that were received
        self.beats = 0  # heartbeats that were received
        self.ended = False  # the peer closed the stream
        self._buffer = bytearray()
        self._inboxes: dict[int, deque[Any]] = {0: deque()}
        self._partial: dict[int, Content] = {}

    # Bytes

    def raw(self, data: bytes) -> None:
        self.pipe.send(data)

    def pump(self, wait_ms: int | None = None) -> None:
        """Read what has arrived, and note the end of the stream. Raises Silence.

        Without `wait_ms` a socket is given its time, and in process the clock stands still.
        """
        data = self.pipe.receive(wait_ms)
        self.ended = self.ended or not data
        self._buffer += data

    def read_bytes(self, count: int) -> bytes:
        """Read this number of bytes, unparsed; fewer at the end of the stream."""
        while len(self._buffer) < count and not self.ended:
            self.pump()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def expect_eof(self, within_ms: int = 3500) -> None:
        """Expect that the peer closes the stream and sends nothing before that. In process the clock is advanced."""
        came = self.read_to_end(within_ms)
        assert not came, f"came before the end: {list(map(describe, came))}"

    def nothing_for(self, ms: int) -> None:
        """Expect an open stream for this time, with heartbeats alone. In process the clock is advanced."""
        with contextlib.suppress(Silence):
            self.pump(ms)
        assert not self.inbox(0) and not self.ended, f"{list(map(describe, self.inbox(0)))} ended={self.ended}"

    def read_to_end(self, within_ms: int = 3500) -> list[Any]:
        """Return what was received on channel 0 before the peer closed the stream."""
        while not self.ended:
            self.pump(within_ms)
            self._parse()
        return list(self._inboxes[0])

    # Frames and methods

    def _parse(self) -> None:
        while len(self._buffer) >= 7:
            size = int.from_bytes(self._buffer[3:7], "big")
            if len(self._buffer) < size + codec.FRAME_OVERHEAD:
                return
            whole = bytes(self._buffer[: size + codec.FRAME_OVERHEAD])
            del self._buffer[: len(whole)]
            assert whole[-1:] == codec.FRAME_END, f"bad end octet from the server: {whole!r}"
            self.largest_frame = max(self.largest_frame, len(whole))
            self._sort(whole[0], int.from_bytes(whole[1:3], "big"), whole[7:-1])

    def _sort(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == codec.HEARTBEAT:
            assert (channel, payload) == (0, b"")
            self.beats += 1
            return
        if kind == codec.METHOD:
            assert channel not in self._partial, f"a method within a content, channel {channel}"
            method = codec.decode_method(payload)
            if not isinstance(method, Basic.Deliver | Basic.GetOk | Basic.Return):
                self._inboxes[channel].append(method)
                return
            self._partial[channel] = Content(method)
            return
        content = self._partial[channel]
        if kind == codec.HEADER:
            assert payload[:4] == b"\x00\x3c\x00\x00"
            content.header = payload
            content.body_bytes = int.from_bytes(payload[4:12], "big")
        else:
            assert content.header and payload, "a body frame before its header, or an empty one"
            content.body += payload
        if len(content.body) == content.body_bytes:
            self._inboxes[channel].append(self._partial.pop(channel))

    def inbox(self, channel: int) -> deque[Any]:
        """The methods and contents of a channel that were received and not taken."""
        self._parse()
        return self._inboxes[channel]

    def arrived(self, channel: int = 0) -> list[Any]:
        """Return and remove all that has arrived on a channel."""
        with contextlib.suppress(Silence):
            while not self.ended:
                self.pump()
        inbox = self.inbox(channel)
        items = list(inbox)
        inbox.clear()
        return items

    def next(self, channel: int = 0) -> Any:
        """Return the next method or content of a channel. Raises Silence, or Closed when the connection is closed."""
        while not self.inbox(channel):
            closed = next((item for item in self._inboxes[0] if isinstance(item, Connection.Close)), None)
            if closed is not None or self.ended:
                raise Closed(f"connection closed: {dict(closed) if closed is not None else 'end of stream'}")
            self.pump()
        return self._inboxes[channel].popleft()

    def send(self, kind: type[base.Frame], channel: int = 0, **fields: Any) -> None:
        self.raw(codec.method_frame(channel, kind, fields))

    def call(self, kind: type[base.Frame], **fields: Any) -> Any:
        self.send(kind, **fields)
        reply = self.next()
        assert reply.name in kind.valid_responses, f"{kind.name} was answered {describe(reply)}"
        return reply

    def expect_close(self, code: int, answer: bool = True) -> Connection.Close:
        """Expect connection.close with this reply code; send close-ok, unless `answer` is false."""
        reply = self.next()
        assert isinstance(reply, Connection.Close), f"expected connection.close {code}, got {describe(reply)}"
        check_reply_text(reply, code)
        if answer:
            self.send(Connection.CloseOk)
        return reply

    def close(self) -> None:
        """Close the connection by connection.close, and drop what is received meanwhile."""
        self.send(Connection.Close, reply_code=200)
        while not any(isinstance(item, Connection.CloseOk) for item in self.inbox(0)):
            self.pump()
            if self.ended:
                break
        self.pipe.close()

    def vanish(self) -> None:
        """Close the stream without connection.close."""
        self.pipe.close()

    # The handshake, and channels

    def start(self) -> Connection.Start:
        self.raw(PROTOCOL_HEADER)
        started = self.next()
        assert isinstance(started, Connection.Start)
        self.server_properties = started.server_properties
        return started

    def login(self, mechanism: str, response: str | bytes, capabilities: Mapping[str, Any] | None = None,
              properties: Mapping[str, Any] | None = None) -> None:  # fmt: skip
        """Send start-ok."""
        shown = {"product": "test client", **(properties or {})}
        shown["capabilities"] = dict(CAPABILITIES if capabilities is None else capabilities)
        self.send(Connection.StartOk, client_properties=shown, mechanism=mechanism, response=response, locale="en_US")

    def tune(self, channel_max: int = 2047, frame_max: int = FRAME_MAX, heartbeat: int = 0) -> Connection.Tune:
        """Receive tune, and send tune-ok with these values."""
        proposed = self.next()
        assert isinstance(proposed, Connection.Tune), f"expected tune, got {describe(proposed)}"
        self.frame_max = frame_max
        self.send(Connection.TuneOk, channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)
        return proposed

    def open(self, user: str = "guest", password: str = "guest", vhost: str = "/", channel_max: int = 2047,
             frame_max: int = FRAME_MAX, heartbeat: int = 0, capabilities: Mapping[str, Any] | None = None,
             properties: Mapping[str, Any] | None = None) -> Client:  # fmt: skip
        """Make the handshake, and return the client, whose properties are given."""
        self.start()
        self.login("PLAIN", f"\0{user}\0{password}", capabilities, properties)
        self.tune(channel_max, frame_max, heartbeat)
        self.call(Connection.Open, virtual_host=vhost)
        return self

    def channel(self, number: int | None = None) -> Channel:
        """Open a channel; without a number, the first one that was never used."""
        opened = self.unopened(number)
        opened.call(ChannelMethods.Open)
        return opened

    def consumer(self, queue: str, prefetch: int = 0, **fields: Any) -> Channel:
        """Open a channel that consumes from a queue."""
        opened = self.channel()
        opened.qos(prefetch)
        opened.consume(queue, **fields)
        return opened

    def unopened(self, number: int | None = None) -> Channel:
        """A channel that is not opened at the server."""
        if number is None:
            number = next(n for n in range(1, 65536) if n not in self._inboxes)
        self._inboxes.setdefault(number, deque())
        return Channel(self, number)


class Channel:
    """A channel of the client."""

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number

    def send(self, kind: type[base.Frame], **fields: Any) -> None:
        self.client.send(kind, self.number, **fields)

    def next(self) -> Any:
        return self.client.next(self.number)

    def arrived(self) -> list[Any]:
        return self.client.arrived(self.number)

    def call(self, kind: type[base.Frame], **fields: Any) -> Any:
        """Send, and return the reply; deliveries and confirms that arrive meanwhile stay in the inbox."""
        self.send(kind, **fields)
        return self.reply_to(kind)

    def reply_to(self, kind: type[base.Frame]) -> Any:
        passed: list[Any] = []
        while True:
            item = self.next()
            if isinstance(item, base.Frame) and item.name in kind.valid_responses:
                break
            unasked = isinstance(item, Basic.Ack | Basic.Nack | Basic.Cancel)
            if isinstance(item, Content) and isinstance(item.method, Basic.GetOk) and kind is Basic.Get:
                break
            if not unasked and not isinstance(item, Content):
                raise Closed(f"{kind.name} was answered {describe(item)}")
            passed.append(item)
        self.client.inbox(self.number).extendleft(reversed(passed))
        return item

    def refused(self, code: int, kind: type[base.Frame], **fields: Any) -> Any:
        """Send, and expect channel.close or connection.close with this code and the ids of this method."""
        self.send(kind, **fields)
        closed = self.expect_close(code) if code in SOFT else self.client.expect_close(code)
        ids = (closed.class_id, closed.method_id)
        assert ids == (kind.index >> 16, kind.index & 0xFFFF), f"close names method {ids}: {dict(closed)}"
        return closed

    def expect_close(self, code: int, answer: bool = True) -> Any:
        item = self.next()
        assert isinstance(item, ChannelMethods.Close), f"expected channel.close {code}, got {describe(item)}"
        check_reply_text(item, code)
        if answer:
            self.send(ChannelMethods.CloseOk)
        return item

    def nothing(self, *queues: str) -> None:
        """Expect an empty inbox, also after the server has answered some more requests (about these queues, too)."""
        assert not self.client.inbox(self.number), f"unexpected: {list(map(describe, self.client.inbox(self.number)))}"
        for queue in queues:
            self.declare(queue, passive=True)
        self.sync()
        waiting = list(map(describe, self.client.inbox(self.number)))
        assert not waiting, f"unexpected: {waiting}"

    def sync(self) -> None:
        """Return when the server has handled all that was sent on the channel."""
        for _ in range(2):
            self.call(ChannelMethods.Flow, active=True)

    def close(self) -> None:
        self.send(ChannelMethods.Close, reply_code=200)
        while not isinstance(self.next(), ChannelMethods.CloseOk):
            pass

    # Methods by name

    def declare(self, queue: str | bytes = "", **fields: Any) -> Any:
        return self.call(Queue.Declare, queue=queue, **fields)

    def count(self, queue: str) -> int:
        """The number of messages that are ready in a queue."""
        return int(self.declare(queue, passive=True).message_count)

    def exchange(self, exchange: str | bytes, exchange_type: str = "direct", **fields: Any) -> None:
        self.call(Exchange.Declare, exchange=exchange, exchange_type=exchange_type, **fields)

    def delete(self, queue: str) -> None:
        self.call(Queue.Delete, queue=queue)

    def delete_exchange(self, exchange: str) -> None:
        self.call(Exchange.Delete, exchange=exchange)

    def bind(self, queue: str, exchange: str, routing_key: str = "", **fields: Any) -> None:
        self.call(Queue.Bind, queue=queue, exchange=exchange, routing_key=routing_key, **fields)

    def unbind(self, queue: str, exchange: str, routing_key: str = "", **fields: Any) -> None:
        self.call(Queue.Unbind, queue=queue, exchange=exchange, routing_key=routing_key, **fields)

    def bind_exchange(self, destination: str, source: str, routing_key: str = "", **fields: Any) -> None:
        self.call(Exchange.Bind, destination=destination, source=source, routing_key=routing_key, **fields)

    def unbind_exchange(self, destination: str, source: str, routing_key: str = "", **fields: Any) -> None:
        self.call(Exchange.Unbind, destination=destination, source=source, routing_key=routing_key, **fields)

    def publish(self, exchange: str, routing_key: str | bytes, body: bytes = b"", properties: Any = None,
                mandatory: bool = False, immediate: bool = False) -> None:  # fmt: skip
        fields = {"exchange": exchange, "routing_key": routing_key, "mandatory": mandatory, "immediate": immediate}
        self.client.raw(
            codec.method_frame(self.number, Basic.Publish, fields)
            + codec.header_frame(self.number, len(body), properties)
            + codec.body_frames(self.number, body, self.client.frame_max)
        )

    def fill(self, queue: str, *bodies: bytes, **properties: Any) -> None:
        """Publish these bodies to a queue, all with the same properties."""
        for body in bodies:
            self.publish("", queue, body, properties)
        self.sync()

    def get(self, queue: str = "", no_ack: bool = True) -> Content | None:
        reply = self.call(Basic.Get, queue=queue, no_ack=no_ack)
        return reply if isinstance(reply, Content) else None

    def get_all(self, queue: str) -> list[Content]:
        """Get all ready messages of a queue."""
        messages = []
        while (message := self.get(queue)) is not None:
            messages.append(message)
        return messages

    def drain(self, queue: str) -> list[bytes]:
        """Get all ready messages of a queue; return their bodies."""
        return [message.body for message in self.get_all(queue)]

    def consume(self, queue: str, **fields: Any) -> str:
        return str(self.call(Basic.Consume, queue=queue, **fields).consumer_tag)

    def cancel(self, consumer_tag: str) -> None:
        self.call(Basic.Cancel, consumer_tag=consumer_tag)

    def delivery(self) -> Content:
        item = self.next()
        assert isinstance(item, Content) and isinstance(item.method, Basic.Deliver), describe(item)
        return item

    def deliveries(self, count: int) -> list[Content]:
        return [self.delivery() for _ in range(count)]

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        self.send(Basic.Ack, delivery_tag=delivery_tag, multiple=multiple)

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self.send(Basic.Nack, delivery_tag=delivery_tag, multiple=multiple, requeue=requeue)

    def reject(self, delivery_tag: int, requeue: bool = True) -> None:
        self.send(Basic.Reject, delivery_tag=delivery_tag, requeue=requeue)

    def reject_next(self, queue: str) -> None:
        """Get the next message of a queue, and reject it without requeue."""
        message = self.get(queue, no_ack=False)
        assert message is not None, "the queue is empty"
        self.reject(message.tag, requeue=False)
        self.sync()

    def qos(self, prefetch_count: int, globally: bool = False) -> None:
        self.call(Basic.Qos, prefetch_count=prefetch_count, global_=globally)

    def confirm(self) -> None:
        self.call(Confirm.Select)

    def transact(self) -> None:
        self.call(Tx.Select)

    def commit(self) -> None:
        self.call(Tx.Commit)

    def rollback(self) -> None:
        self.call(Tx.Rollback)

    def confirms(self, numbers: Iterable[int]) -> tuple[set[int], set[int]]:
        """Read until these publishes are confirmed; return those acked and those nacked. Each is confirmed once."""
        waiting = set(numbers)
        verdicts: tuple[set[int], set[int]] = (set(), set())
        while waiting:
            item = self.next()
            assert isinstance(item, Basic.Ack | Basic.Nack), f"expected a confirm, got {describe(item)}"
            tag = item.delivery_tag or 0
            assert tag > 0
            settled = {n for n in waiting if n <= tag} if item.multiple else {tag}
            assert tag in waiting, f"{tag} was settled before, or never published"
            waiting -= settled
            verdicts[isinstance(item, Basic.Nack)].update(settled)
        return verdicts


def check_reply_text(closed: Any, code: int) -> None:
    assert closed.reply_code == code, f"expected {code}, got {closed.reply_code} {closed.reply_text}"
    name, dash, _ = closed.reply_text.partition(" - ")
    assert dash and name == name.upper(), f"reply text without the name in front: {closed.reply_text!r}"
    assert len(closed.reply_text.encode()) <= 255


def describe(item: Any) -> str:
    return f"{item.name} {dict(item)}" if isinstance(item, base.Frame) else repr(item)
