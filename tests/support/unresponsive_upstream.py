"""An upstream that answers the methods of links up to a chosen one, and sends heartbeats alone from there on."""

import asyncio
from contextlib import suppress
from typing import Any

from pamqp import commands
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from . import codec
from .loop_thread import LoopThread

BEAT_S = 0.05
SERVER_PROPERTIES = {"capabilities": {"consumer_priorities": True, "basic.nack": True}}


class UnresponsiveUpstream:
    """A server with a port of its own. From the method `mute` on, nothing is answered on a connection; None: all is."""

    def __init__(self, loop: LoopThread) -> None:
        self.mute: type[Any] | None = None
        self.accepted = 0
        self.beats = 0
        self._loop = loop
        self._writers: set[asyncio.StreamWriter] = set()
        self._server = loop.run(self._listen())
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", 0)

    def close(self) -> None:
        self._loop.run(self._close())

    async def _close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the link has gone
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        start = {"version_major": 0, "version_minor": 9, "server_properties": SERVER_PROPERTIES}
        writer.write(codec.method_frame(0, Connection.Start, {**start, "mechanisms": "PLAIN", "locales": "en_US"}))
        while True:
            head = await reader.readexactly(7)
            payload = (await reader.readexactly(int.from_bytes(head[3:7], "big") + 1))[:-1]
            if head[0] != codec.METHOD:
                continue
            kind = commands.INDEX_MAPPING[int.from_bytes(payload[:4], "big")]
            if kind is self.mute:
                with suppress(OSError):
                    await self._beat(reader, writer)
                return
            answer = answer_to(kind, payload)
            if answer is not None:
                writer.write(codec.method_frame(int.from_bytes(head[1:3], "big"), *answer))

    async def _beat(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send heartbeats until the link has closed the connection."""
        while not reader.at_eof():
            self.beats += 1
            writer.write(codec.BEAT)
            await writer.drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    while await reader.read(1 << 16):
                        pass


def answer_to(kind: type[Any], payload: bytes) -> tuple[type[Any], dict[str, Any]] | None:
    if kind is Connection.StartOk:
        return Connection.Tune, {"channel_max": 2047, "frame_max": 131072, "heartbeat": 1}
    if kind is Queue.Declare:
        return Queue.DeclareOk, {"queue": short_string_at(payload, 6)}
    if kind is Basic.Consume:
        return Basic.ConsumeOk, {"consumer_tag": short_string_at(payload, 7 + payload[6]) or "tag"}
    answers: dict[type[Any], type[Any]] = {
        Connection.Open: Connection.OpenOk,
        Connection.Close: Connection.CloseOk,
        Channel.Open: Channel.OpenOk,
        Channel.Close: Channel.CloseOk,
        Exchange.Declare: Exchange.DeclareOk,
        Exchange.Delete: Exchange.DeleteOk,
        Exchange.Bind: Exchange.BindOk,
        Exchange.Unbind: Exchange.UnbindOk,
        Queue.Bind: Queue.BindOk,
        Basic.Qos: Basic.QosOk,
    }
    return (answers[kind], {}) if kind in answers else None


def short_string_at(payload: bytes, at: int) -> str:
    return payload[at + 1 : at + 1 + payload[at]].decode()
