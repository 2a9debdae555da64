"""From an Endpoint to a connection that can be used: socket, TLS, login, virtual host.

Imported when the first link starts, not before, as aio-pika takes a while. All errors are LinkFaults, whose texts come
from the upstream, the system or us; aio-pika's own never get further than this.
"""

from __future__ import annotations

import asyncio
import platform
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from aiormq.abc import AbstractChannel
from aiormq.exceptions import ProtocolSyntaxError

from warren.broker.plugin import Host, Table, User

from ..errors import LinkError
from ..link_permissions import check_login
from .channel import UpstreamChannel
from .endpoint import Endpoint
from .frame_check import CLUSTER_NAME_MAX
from .handshake import AiormqConnection, PlainConnection
from .tls import context_of, reason_of, server_hostname
from .transport import Delivery, UpstreamEvents, UpstreamTransport, seen

__all__ = ["UpstreamChannel", "UpstreamConnection", "dial"]

T = TypeVar("T")

DISTRIBUTION = "warrenmq"
CAPABILITIES = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "exchange_exchange_bindings",
    "publisher_confirms",
)
ANSWERS_CANCEL = "accept_consumer_cancel_ok"  # a capability of upstreams that wait for cancel-ok
CANCEL_OK = 0x003C001F
CONNECT_S = 4.0  # for a TCP connection to one address: the system asks at once, after 1 s and after 3 s
CLEAN_S = 1.0  # for what is left of an attempt that failed


async def dial(
    host: Host,
    one: Endpoint,
    vhost: str,
    name: str,
    deliveries: Callable[[list[Delivery]], None],
    user: User | None = None,
) -> UpstreamConnection:
    """An open connection to that virtual host, called `name` at the upstream, whose deliveries go to a function.

    It acts for that user of this broker, or for the node itself.
    TCP and TLS together, and then the login, take as long as the endpoint allows. Raises LinkError, in which there is
    no secret; then, and when it is cancelled, nothing is left of it.
    """
    listener = UpstreamListener(host, deliveries)
    line = UpstreamTransport(listener, host.settings.max_message_size)
    connection = UpstreamConnection(line, listener, one, vhost, name)
    async with AsyncExitStack() as undo:
        undo.push_async_callback(connection.give_up)
        try:
            async with asyncio.timeout(one.connection_timeout_s):
                await reach(host, one, vhost, line, user)
                check_login(host.node, user, one, line.socket)
            async with asyncio.timeout(one.connection_timeout_s):
                await connection.log_in()
        except TimeoutError:
            raise LinkError("timeout") from None
        undo.pop_all()
    return connection


async def reach(host: Host, one: Endpoint, vhost: str, line: UpstreamTransport, user: User | None) -> None:
    """Give the line a socket. Raises LinkError."""
    loop = asyncio.get_running_loop()
    try:
        with ExitStack() as undo:
            if one.direct:
                own = await host.connect_inside(vhost, one.user is not None, user)
                undo.callback(own.close)
                await loop.create_unix_connection(lambda: line, sock=own)
            elif one.tls:
                context = await encryption(host, one, user)
                own = await connect(one.host, one.port)
                undo.callback(own.close)
                await loop.create_connection(
                    lambda: line,
                    sock=own,
                    ssl=context,
                    server_hostname=server_hostname(one),
                    ssl_handshake_timeout=one.connection_timeout_s,
                )
            else:
                own = await connect(one.host, one.port)
                undo.callback(own.close)
                await loop.create_connection(lambda: line, sock=own)
            undo.pop_all()
    except TimeoutError:
        raise
    except OSError as error:
        raise LinkError(reason_of(error)) from None


async def encryption(host: Host, one: Endpoint, user: User | None) -> ssl.SSLContext:
    """The TLS context of an endpoint. Raises LinkError where a file cannot be used.

    A user who is no administrator names files that he may not read himself: what is wrong with them, and whether they
    exist, is for the log alone.
    """
    try:
        return await asyncio.to_thread(context_of, one)
    except LinkError as fault:
        if user is None:
            raise
        host.report("federation_file_unusable", "warning", {"user": user.name, "uri": one.safe, "reason": fault.text})
        raise LinkError("cannot use a file that the URI names, the broker's log says why") from None


async def resolve(host: str, port: int, *, type: int) -> list[Any]:
    """The addresses of a host, as socket.getaddrinfo gives them. Raises OSError."""
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=type)


async def connect(host: str, port: int) -> socket.socket:
    """A TCP connection to the first address of the host that answers. Raises OSError.

    Each address has CONNECT_S. The system would go on for two minutes, by the route and from the address that it chose
    first, which after an outage of the network may not be there any more.
    """
    loop = asyncio.get_running_loop()
    last: OSError = TimeoutError()
    for family, kind, protocol, _, address in await resolve(host, port, type=socket.SOCK_STREAM):
        with ExitStack() as undo:
            try:
                one = socket.socket(family, kind, protocol)
                undo.callback(one.close)
                one.setblocking(False)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                async with asyncio.timeout(CONNECT_S):
                    await loop.sock_connect(one, address)
            except OSError as error:  # of which TimeoutError is one
                last = error
                continue
            undo.pop_all()
            return one
    raise last


class UpstreamListener(UpstreamEvents):
    """Tells the channels of one connection what concerns them."""

    def __init__(self, host: Host, deliveries: Callable[[list[Delivery]], None]) -> None:
        self.deliveries = deliveries
        self.channels: dict[int, UpstreamChannel] = {}
        self.answer_cancel: Callable[[int, str], None] = lambda channel, tag: None
        self._host = host

    def delivered(self, deliveries: list[Delivery]) -> None:
        self.deliveries(deliveries)

    def cancelled(self, channel: int, consumer_tag: str) -> None:
        self.answer_cancel(channel, consumer_tag)
        if channel in self.channels:
            self.channels[channel].cancelled(consumer_tag)

    def channel_closed(self, channel: int, fault: LinkError) -> None:
        closed = self.channels.pop(channel, None)
        if closed is not None and not closed.ended.done():
            closed.ended.set_result(fault)

    def failed(self, error: Exception) -> None:
        self._host.report("internal_error", "error", {"exc_info": error})


class UpstreamConnection:
    """Open, until `ended` says why it is not any more. `inside` is a connection to this very broker."""

    def __init__(
        self, line: UpstreamTransport, listener: UpstreamListener, one: Endpoint, vhost: str, name: str
    ) -> None:
        self.line = line
        self.vhost = vhost
        self.endpoint = one
        self.safe_uri = one.safe
        self.inside = one.direct
        self.ended = line.ended
        self.server_properties: dict[str, Any] = {}
        self.cluster_name: str | None = None
        self.capabilities: frozenset[str] = frozenset()
        self._listener = listener
        self._connection = PlainConnection(AiormqConnection(line, one, vhost, client_properties(name)))

    async def log_in(self) -> None:
        """Raises LinkError."""
        await self._kept(self._connection.connect())
        dialogue = self._connection.dialogue
        self.line.cutter.frame_max = dialogue.frame_max
        self.server_properties = dict(dialogue.server_properties)
        cluster_name = self.server_properties.get("cluster_name")
        self.cluster_name = cluster_name if isinstance(cluster_name, str) else None
        if len((self.cluster_name or "").encode("utf-8", "surrogateescape")) > CLUSTER_NAME_MAX:
            raise LinkError(f"the upstream's cluster name has more than {CLUSTER_NAME_MAX} bytes")
        capabilities = self.server_properties.get("capabilities")
        if isinstance(capabilities, dict):
            self.capabilities = frozenset(name for name, value in capabilities.items() if value is True)
        if ANSWERS_CANCEL in self.capabilities:
            self._listener.answer_cancel = self._answer_cancel
        if self.endpoint.heartbeat_s:
            self.line.watch(self.endpoint.heartbeat_s)

    async def channel(self) -> UpstreamChannel:
        """Raises LinkError."""
        opened = await self._answered(self._connection.dialogue.channel(publisher_confirms=False))
        channel = UpstreamChannel(self, opened)
        self._listener.channels[channel.number] = channel
        return channel

    async def close_channel(self, channel: UpstreamChannel, opened: AbstractChannel) -> None:
        """As `UpstreamChannel.close`; also where the connection is gone."""
        if not channel.ended.done():
            channel.ended.set_result(LinkError("closed"))
            self._listener.channels.pop(channel.number, None)
            try:
                await self._answered(opened.close())
            except LinkError:
                pass  # the connection is gone, and the channel with it
            finally:
                self.line.forget(channel.number, channel.ended.result())

    async def give_up(self) -> None:
        """Before it was open."""
        self.line.abort("given up")
        await self.close(CLEAN_S)

    async def close(self, timeout_s: float) -> None:
        """Say goodbye, and wait for the answer that long. What still comes is dropped."""
        self._listener.deliveries = dropped
        self.line.resume()
        try:
            async with asyncio.timeout(timeout_s):
                await self._kept(self._connection.close())
        except (LinkError, TimeoutError):
            pass  # gone anyway
        finally:
            self.line.abort("closed")

    def _answer_cancel(self, channel: int, consumer_tag: str) -> None:
        octets = consumer_tag.encode("utf-8", "surrogateescape")
        self.line.send(channel, CANCEL_OK, bytes((len(octets),)) + octets)

    async def _answered(self, work: Coroutine[Any, Any, T]) -> T:
        """Do as `_kept`, for a request that the upstream has to answer in time."""
        answer: asyncio.Future[None] = self.line.loop.create_future()
        self.line.expect(answer)
        try:
            return await self._kept(work)
        finally:
            answer.cancel()

    async def _kept(self, work: Coroutine[Any, Any, T]) -> T:
        """What aio-pika does, in a task of its own: it may end by a CancelledError although nobody cancelled us, and it
        may not end with the connection. Raises LinkError."""
        task = self.line.loop.create_task(work)
        task.add_done_callback(seen)
        either: list[asyncio.Future[Any]] = [task, self.ended]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait([task], timeout=CLEAN_S)
        finally:
            task.cancel()
        error = task.exception() if task.done() and not task.cancelled() else asyncio.CancelledError()
        if error is None:
            return task.result()
        if isinstance(error, LinkError):
            raise error
        if self.line.fault is not None:
            raise self.line.fault
        if self.ended.done() and not isinstance(error, ProtocolSyntaxError):
            raise LinkError(self.ended.result())
        raise LinkError("the upstream does not speak AMQP 0-9-1 as it should")


def dropped(deliveries: list[Delivery]) -> None:
    """Nobody wants them any more; the upstream still has them."""


@cache
def own_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0.0.0"


def client_properties(name: str) -> Table:
    """What the upstream shows of us."""
    return Table.of(
        {
            "product": "Warren",
            "version": own_version(),
            "platform": f"Python {platform.python_version()}",
            "connection_name": name,
            "capabilities": dict.fromkeys(CAPABILITIES, True),
        }
    )
