"""aio-pika's plain connection, over a socket that is there already, with what it lacks of AMQP's handshake.

It knows neither address nor password by its URL, so that nothing it says can show them: who logs in, where to, and what
is agreed on comes from the Endpoint. Its loggers are silent; what is worth a line is said by the link.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import aio_pika
import aiormq
from aio_pika.abc import UnderlayConnection
from aio_pika.tools import OneShotCallback
from aiormq.connection import FrameReceiver, TransportFactory
from pamqp import commands
from pamqp.base import Frame
from pamqp.frame import FrameTypes
from yarl import URL

from warren.broker.plugin import Table

from ..errors import LinkError
from .delivery_parser import FRAME_MAX
from .endpoint import Endpoint
from .transport import UpstreamTransport

for _name in ("aio_pika", "aiormq", "pamqp"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

USUAL = ("plain", "amqplain")  # mechanisms, where the URI names none


class StartOk(commands.Connection.StartOk):
    """With a response of any octets, which pamqp takes for text."""

    def __init__(self, octets: bytes) -> None:
        super().__init__()
        self._marshalled = octets

    def marshal(self) -> bytes:
        return self._marshalled


class Open(commands.Connection.Open):
    """With any name of a virtual host, also one that pamqp finds too long."""

    def __init__(self, octets: bytes) -> None:
        super().__init__()
        self._marshalled = octets

    def marshal(self) -> bytes:
        return self._marshalled


class Mechanism:
    """What aiormq asks of a mechanism; the response is put in later."""

    def __init__(self, name: str) -> None:
        self.name = name

    def value(self, connection: object) -> Mechanism:
        return self

    def marshal(self) -> str:
        return ""


class AiormqConnection(aiormq.Connection):
    """The connection beneath aio-pika's. `frame_max` is what was agreed on, in octets of whole frames."""

    def __init__(self, line: UpstreamTransport, one: Endpoint, vhost: str, properties: Table) -> None:
        url = URL.build(scheme="amqp", host="upstream", query={"heartbeat": str(one.heartbeat_s)})
        super().__init__(url, transport_factory=ConnectedSocketFactory(line))
        self.frame_max = 0
        self._one = one
        self._vhost = vhost
        self._properties = properties
        self._mechanism = ""

    def _credentials_class(self, start_frame: commands.Connection.Start) -> Any:
        """The first of ours that the upstream offers. Raises LinkError."""
        offered = str(start_frame.mechanisms).upper().split()
        wanted = [name.upper() for name in self._one.mechanisms or USUAL]
        for name in wanted:
            if name in offered:
                self._mechanism = name
                return Mechanism(name)
        raise LinkError(f"the upstream offers no login by {' or '.join(wanted)}, only by {' '.join(offered)}")

    async def _rpc(  # type: ignore[override]  # asked for on the object, and there a method like any other
        self,
        request: Frame,
        writer: asyncio.StreamWriter,
        frame_receiver: FrameReceiver,
        wait_response: bool = True,
    ) -> FrameTypes | None:
        if isinstance(request, commands.Connection.StartOk):
            answer = long_string(response(self._mechanism, self._one))
            request = StartOk(self._properties.framed + short_string(self._mechanism) + answer + short_string("en_US"))
        elif isinstance(request, commands.Connection.TuneOk):
            request.channel_max = agreed(request.channel_max or 0, self._one.channel_max)
            frame_max = agreed(agreed(request.frame_max or 0, self._one.frame_max), FRAME_MAX)
            request.frame_max = self.frame_max = frame_max
        elif isinstance(request, commands.Connection.Open):
            request = Open(short_string(self._vhost) + b"\0\0")
        return await aiormq.Connection._rpc(request, writer, frame_receiver, wait_response)


class ConnectedSocketFactory(TransportFactory):
    """The socket is there; aio-pika need not know where it leads."""

    def __init__(self, line: UpstreamTransport) -> None:
        self._line = line

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        line = self._line
        if line.socket is None:
            raise ConnectionResetError("socket closed")
        return line.reader, asyncio.StreamWriter(line.socket, line, line.reader, line.loop)


class PlainConnection(aio_pika.Connection):
    """aio-pika's, over a Dialogue of ours. It is to be closed, however far it came."""

    def __init__(self, dialogue: AiormqConnection) -> None:
        super().__init__(dialogue.url)
        self.dialogue = dialogue

    async def connect(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  # aio-pika's; not used
        closed = OneShotCallback(self._on_connection_close)
        await self.dialogue.connect()
        self.dialogue.closing.add_done_callback(closed)
        self.transport = UnderlayConnection(connection=self.dialogue, close_callback=closed)
        await self._on_connected()

    def __del__(self) -> None:
        """Nothing is left to do: its line is aborted. aio-pika would start a task here, in the loop of whichever thread
        collects it, and of an attempt that was cancelled while it closed."""


def response(mechanism: str, one: Endpoint) -> bytes:
    """What the mechanism wants to hear; external and anonymous say nothing."""
    user = (one.user or "").encode("utf-8", "surrogateescape")
    password = (one.password.reveal() if one.password is not None else "").encode("utf-8", "surrogateescape")
    if mechanism == "PLAIN":
        return b"\0" + user + b"\0" + password
    if mechanism == "AMQPLAIN":
        return Table.of({"LOGIN": user, "PASSWORD": password}).raw
    return b""


def agreed(theirs: int, ours: int) -> int:
    """The lower of two limits, where 0 is none."""
    return min(theirs or ours, ours or theirs)


def short_string(text: str) -> bytes:
    """Raises LinkError."""
    octets = text.encode("utf-8", "surrogateescape")
    if len(octets) > 255:
        raise LinkError("the name of the virtual host is too long")
    return bytes((len(octets),)) + octets


def long_string(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets
