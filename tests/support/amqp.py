"""A synchronous AMQP 0-9-1 client for tests. It says whatever it is told to, sees everything, and retries nothing.

It speaks through a pipe (support/broker.py): a socket, or a broker inside this process, where nothing ever waits.
"""

import contextlib
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from pamqp import base
from pamqp.commands import Basic, Connection
from pamqp.commands import Channel as ChannelMethods

from . import codec
from .channel import Channel
from .received import Closed, Content, Silence, check_reply_text, describe

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CAPABILITIES = {"authentication_failure_close": True, "connection.blocked": True, "consumer_cancel_notify": True,
                "basic.nack": True, "publisher_confirms": True, "exchange_exchange_bindings": True}  # fmt: skip
FRAME_MAX = 131072  # what the server proposes, and a client takes unless a test says otherwise


class Pipe(Protocol):
    """Bytes to and from a peer."""

    def send(self, data: bytes) -> None: ...

    def receive(self, wait_ms: int | None) -> bytes:
        """What has come, or comes within that time; empty at the end of the stream. Raises Silence."""

    def close(self) -> None: ...


class Client:
    """One connection. Frames are sorted by channel as they come; channel 0 is the connection's own."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.server_properties: dict[str, Any] = {}
        self.frame_max = FRAME_MAX
        self.largest_frame = 0  # octets, of those that came
        self.beats = 0  # heartbeats that came
        self.ended = False  # the peer closed the stream
        self._buffer = bytearray()
        self._inboxes: dict[int, deque[Any]] = {0: deque()}
        self._partial: dict[int, Content] = {}

    # Bytes

    def raw(self, data: bytes) -> None:
        self.pipe.send(data)

    def pump(self, wait_ms: int | None = None) -> None:
        """Take in what has come. Raises Silence; notes the end of the stream.

        Without `wait_ms` a socket is given its time, and in process the clock stands still.
        """
        data = self.pipe.receive(wait_ms)
        self.ended = self.ended or not data
        self._buffer += data

    def octets(self, count: int) -> bytes:
        """So many bytes of what comes, unparsed; fewer at the end of the stream."""
        while len(self._buffer) < count and not self.ended:
            self.pump()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def expect_eof(self, within_ms: int = 3500) -> None:
        """The peer closes the stream, and sends nothing more before that. In process the time is made to pass."""
        came = self.read_to_end(within_ms)
        assert not came, f"came before the end: {list(map(describe, came))}"

    def nothing_for(self, ms: int) -> None:
        """The stream stays open that long, and nothing but heartbeats comes. In process the time is made to pass."""
        with contextlib.suppress(Silence):
            self.pump(ms)
        assert not self.inbox(0) and not self.ended, f"{list(map(describe, self.inbox(0)))} ended={self.ended}"

    def read_to_end(self, within_ms: int = 3500) -> list[Any]:
        """What still came on channel 0 before the peer closed the stream."""
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
        """What has come on a channel and was not taken."""
        self._parse()
        return self._inboxes[channel]

    def next(self, channel: int = 0) -> Any:
        """The next method or content of a channel. Raises Silence, or Closed when the connection ends instead."""
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
        """The server closes the connection with this reply code; answered unless told otherwise."""
        reply = self.next()
        assert isinstance(reply, Connection.Close), f"expected connection.close {code}, got {describe(reply)}"
        check_reply_text(reply, code)
        if answer:
            self.send(Connection.CloseOk)
        return reply

    def close(self) -> None:
        """Say goodbye as a good client does; whatever else came is dropped."""
        self.send(Connection.Close, reply_code=200)
        while not any(isinstance(item, Connection.CloseOk) for item in self.inbox(0)):
            self.pump()
            if self.ended:
                break
        self.pipe.close()

    def vanish(self) -> None:
        """Close the stream without a word."""
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
        """Take the server's proposal and answer it with these values."""
        proposed = self.next()
        assert isinstance(proposed, Connection.Tune), f"expected tune, got {describe(proposed)}"
        self.frame_max = frame_max
        self.send(Connection.TuneOk, channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)
        return proposed

    def channel(self, number: int | None = None) -> Channel:
        """Open a channel; without a number the first one never used."""
        opened = self.unopened(number)
        opened.call(ChannelMethods.Open)
        return opened

    def unopened(self, number: int | None = None) -> Channel:
        """A channel of which the server has not been told."""
        if number is None:
            number = next(n for n in range(1, 65536) if n not in self._inboxes)
        self._inboxes.setdefault(number, deque())
        return Channel(self, number)
