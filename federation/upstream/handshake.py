"""The AMQP handshake with an upstream: the only file of federation that imports aio-pika and aiormq.

aio-pika does the handshake, heartbeats and connection.close. UpstreamTransport writes and reads everything else. The
URL that aio-pika gets has neither address nor password, so none of its texts can show them; its loggers are silenced,
since the link logs what matters.

This file uses private parts of the two libraries, so pyproject.toml accepts only versions that were compared with this
list (aio-pika 10.2, and aiormq 7.2 from 7.2.4 on):

- `aiormq.Connection._rpc` is overridden to replace the arguments of three methods: start-ok, where aiormq sends only
  text as response and client properties of its own; tune-ok, for frame_max and channel_max of the URI; and open, where
  pamqp refuses names of virtual hosts that AMQP allows.
- `aiormq.Connection._credentials_class` is overridden to choose the mechanism that the URI asks for.
- `aio_pika.Connection.connect` is overridden, since it would open the socket by itself. `_on_connection_close`,
  `_on_connected`, `UnderlayConnection` and `OneShotCallback` are what it uses once the socket is open.
- `__del__` is overridden, since it starts a task.
- UpstreamTransport feeds heartbeats to aiormq's reader: aiormq closes a connection from which it reads nothing, and
  deliveries do not pass through it.
- `aiormq.Connection._reader_task`, `_writer_task` and `_closing`, and `TaskWrapper._exception`, lead from a closed
  connection back to itself by the frames of their errors. These are dropped: only a full garbage collection would free
  the cycle, and with very many links it takes long.
- UpstreamConnection runs each call in a task of its own: aiormq may end a call with a CancelledError that the caller
  did not request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import aio_pika
import aiormq
from aio_pika.abc import UnderlayConnection
from aio_pika.tools import OneShotCallback
from aiormq.connection import FrameReceiver, TransportFactory
from aiormq.exceptions import ProtocolSyntaxError
from pamqp import commands
from pamqp.base import Frame
from pamqp.frame import FrameTypes
from yarl import URL

from warren.broker.plugin import Table

from .channel import encode_short
from .delivery_parser import FRAME_MAX
from .endpoint import Endpoint
from .errors import LinkError
from .transport import UpstreamTransport

__all__ = ["AiormqConnection", "PlainConnection", "ProtocolSyntaxError"]

for _name in ("aio_pika", "aiormq", "pamqp"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

DEFAULT_MECHANISMS = ("plain", "amqplain")  # in order of preference, if the URI names none


class EncodedMethod(Frame):
    """A method of pamqp whose arguments are encoded already."""

    def __init__(self, arguments: bytes) -> None:
        super().__init__()
        self._encoded = arguments

    def marshal(self) -> bytes:
        return self._encoded


class RawStartOk(EncodedMethod, commands.Connection.StartOk):
    """A connection.start-ok with encoded arguments, since its response may be any bytes and pamqp encodes only text."""


class RawOpen(EncodedMethod, commands.Connection.Open):
    """A connection.open with encoded arguments, since pamqp refuses names of virtual hosts that AMQP allows."""


class Mechanism:
    """A SASL mechanism as aiormq uses it. Its response is empty: `_rpc` writes the real one."""

    def __init__(self, name: str) -> None:
        self.name = name

    def value(self, connection: object) -> Mechanism:
        return self

    def marshal(self) -> str:
        return ""


class AiormqConnection(aiormq.Connection):
    """The aiormq connection beneath aio-pika's, with the handshake that the endpoint asks for.

    `frame_max` is the agreed size of whole frames, in bytes; 0 before tune-ok.
    """

    def __init__(self, transport: UpstreamTransport, endpoint: Endpoint, vhost: str, properties: Table) -> None:
        url = URL.build(scheme="amqp", host="upstream", query={"heartbeat": str(endpoint.heartbeat_s)})
        super().__init__(url, transport_factory=ConnectedSocketFactory(transport))
        self.frame_max = 0
        self._endpoint = endpoint
        self._vhost = vhost
        self._properties = properties
        self._mechanism = ""
        self._tasks: list[Any] = []

    def _credentials_class(self, start_frame: commands.Connection.Start) -> Any:
        """Return the first of our mechanisms that the upstream offers. Raises LinkError."""
        names: str | bytes = start_frame.mechanisms  # bytes if they are not UTF-8
        offered = (names.decode("ascii", "replace") if isinstance(names, bytes) else names).upper().split()
        wanted = [name.upper() for name in self._endpoint.mechanisms or DEFAULT_MECHANISMS]
        for name in wanted:
            if name in offered:
                self._mechanism = name
                return Mechanism(name)
        raise LinkError(f"the upstream offers no login by {' or '.join(wanted)}, only by {' '.join(offered)}")

    async def _rpc(  # type: ignore[override]  # aiormq calls it on the object, as any other method
        self, request: Frame, writer: asyncio.StreamWriter, frame_receiver: FrameReceiver, wait_response: bool = True
    ) -> FrameTypes | None:
        if isinstance(request, commands.Connection.StartOk):
            response = sasl_response(self._mechanism, self._endpoint)
            login = encode_short(self._mechanism) + len(response).to_bytes(4, "big") + response
            request = RawStartOk(self._properties.framed + login + encode_short("en_US"))
        elif isinstance(request, commands.Connection.TuneOk):
            request.channel_max = lower_limit(request.channel_max or 0, self._endpoint.channel_max)
            frame_max = lower_limit(lower_limit(request.frame_max or 0, self._endpoint.frame_max), FRAME_MAX)
            request.frame_max = self.frame_max = frame_max
        elif isinstance(request, commands.Connection.Open):
            request = RawOpen(encode_short(self._vhost, "the name of the virtual host") + b"\0\0")
        return await aiormq.Connection._rpc(request, writer, frame_receiver, wait_response)

    def create_task(self, coro: Coroutine[Any, Any, Any]) -> Any:
        task = super().create_task(coro)
        self._tasks.append(task)
        return task

    def release(self) -> None:
        """Drop the errors of ended tasks, whose frames lead from a closed connection back to itself."""
        if all(task.done() for task in self._tasks):
            self._closing.cancel()  # of an attempt that failed before it was open
            break_cycle(error_of(self._closing))
            self._closing = self.loop.create_future()  # as a future keeps the frames, too
            self._closing.cancel()
            for task in self._tasks:
                break_cycle(error_of(task))
                break_cycle(task._exception)
                task._exception = asyncio.CancelledError
            self._tasks.clear()
            for name in ("_reader_task", "_writer_task"):
                vars(self).pop(name, None)


class ConnectedSocketFactory(TransportFactory):
    """A factory that hands aiormq a socket which is already connected."""

    def __init__(self, transport: UpstreamTransport) -> None:
        self._transport = transport

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        transport = self._transport
        if transport.socket is None:
            raise ConnectionResetError("socket closed")
        return transport.reader, asyncio.StreamWriter(transport.socket, transport, transport.reader, transport.loop)


class PlainConnection(aio_pika.Connection):
    """An aio-pika connection over an AiormqConnection. It has to be closed even if `connect` failed."""

    def __init__(self, underlay: AiormqConnection) -> None:
        super().__init__(underlay.url)
        self.underlay = underlay

    async def connect(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  # aio-pika's; not used
        closed = OneShotCallback(self._on_connection_close)
        await self.underlay.connect()
        self.underlay.closing.add_done_callback(closed)
        self.transport = UnderlayConnection(connection=self.underlay, close_callback=closed)
        await self._on_connected()

    def __del__(self) -> None:
        """Do nothing, since the transport is aborted already.

        aio-pika would start a task, in the loop of whichever thread collects the object, even for an attempt that was
        cancelled while it was closing.
        """


def sasl_response(mechanism: str, endpoint: Endpoint) -> bytes:
    """Return the response of connection.start-ok; EXTERNAL and ANONYMOUS have an empty one."""
    user = (endpoint.user or "").encode("utf-8", "surrogateescape")
    password = (endpoint.password.reveal() if endpoint.password is not None else "").encode("utf-8", "surrogateescape")
    if mechanism == "PLAIN":
        return b"\0" + user + b"\0" + password
    if mechanism == "AMQPLAIN":
        return Table.of({"LOGIN": user, "PASSWORD": password}).raw
    return b""


def error_of(future: asyncio.Future[Any]) -> BaseException | None:
    """Return how a future ended, or None if it did not fail."""
    try:
        return future.exception()
    except (asyncio.CancelledError, asyncio.InvalidStateError) as error:
        return error


def break_cycle(error: BaseException | type[BaseException] | None) -> None:
    """Drop the frames that an error passed, and the errors before it."""
    if isinstance(error, BaseException):
        error.__traceback__ = error.__cause__ = error.__context__ = None


def lower_limit(theirs: int, ours: int) -> int:
    """Return the lower of two limits, of which 0 means unlimited."""
    return min(theirs or ours, ours or theirs)
