"""An AMQP connection to an upstream, and how it is opened: socket, TLS, login, virtual host.

The module is imported when the first link starts, since importing aio-pika takes a while. All errors are LinkErrors,
whose texts come from the upstream, the system or this module, never from aio-pika.
"""

from __future__ import annotations

import asyncio
import ipaddress
import platform
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from warren.broker.plugin import Host, Node, Table, User
from warren.broker.product import PRODUCT, product_version

from .channel import UpstreamChannel, encode_short
from .endpoint import Endpoint
from .errors import LinkError
from .frame_check import CLUSTER_NAME_MAX
from .handshake import AiormqConnection, PlainConnection, ProtocolSyntaxError
from .tls import describe_error, expected_name, make_context
from .transport import CHANNEL_CLOSE, CLOSED, Delivery, UpstreamEvents, UpstreamTransport, mark_retrieved
from .turns import Turns

__all__ = ["UpstreamChannel", "UpstreamConnection", "dial"]

T = TypeVar("T")

CAPABILITIES = (
    *("authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify"),
    *("exchange_exchange_bindings", "publisher_confirms"),
)
WAITS_FOR_CANCEL_OK = "accept_consumer_cancel_ok"  # a capability of upstreams
CANCEL_OK, CHANNEL_OPEN = 0x003C001F, 0x0014000A
NORMAL = b"\x00\xc8" + bytes(5)  # the arguments of channel.close: code 200, no text, no method
CONNECT_S = 4.0  # for a TCP connection to one address: the system sends SYN at once, after 1 s and after 3 s
CLEAN_UP_S = 1.0  # to close the connection of a failed attempt
RELEASE_S = 1.0  # after which aiormq's tasks of a closed connection have ended


async def dial(
    host: Host,
    endpoint: Endpoint,
    vhost: str,
    name: str,
    deliveries: Callable[[list[Delivery]], None],
    user: User | None = None,
    turns: Turns | None = None,
) -> UpstreamConnection:
    """Open a connection to a virtual host, with `name` as its connection name; `deliveries` is called with deliveries.

    `user` is the user of this broker for whom the link acts, or None for the node itself; `turns` are those of
    all links. The endpoint's timeout applies to TCP and TLS together, and again to the login. Raises LinkError, whose
    text has no secrets. After an error or a cancellation nothing stays open.
    """
    dispatcher = EventDispatcher(host, deliveries)
    transport = UpstreamTransport(dispatcher, host.settings.max_message_size, turns, host.alone)
    properties = client_properties(name, host.node.cluster_name)
    connection = UpstreamConnection(transport, dispatcher, endpoint, vhost, properties)
    async with AsyncExitStack() as undo:
        undo.push_async_callback(connection.abandon)
        try:
            async with asyncio.timeout(endpoint.connection_timeout_s):
                await connect_transport(host, endpoint, vhost, transport, user)
                check_login(host.node, user, endpoint, transport.socket)
            async with asyncio.timeout(endpoint.connection_timeout_s):
                await connection.log_in()
        except TimeoutError:
            raise LinkError("timeout") from None
        except LinkError as fault:
            if fault.text.startswith(CLOSED) and not transport.started:
                raise LinkError(early_close(endpoint)) from None
            raise
        undo.pop_all()
    return connection


async def connect_transport(
    host: Host, endpoint: Endpoint, vhost: str, transport: UpstreamTransport, user: User | None
) -> None:
    """Connect a socket, with TLS if the endpoint has it, and hand it to the transport. Raises LinkError."""
    loop = asyncio.get_running_loop()
    try:
        with ExitStack() as undo:
            if endpoint.direct:
                own = await host.connect_inside(vhost, endpoint.user is not None, user)
                undo.callback(own.close)
                await loop.create_unix_connection(lambda: transport, sock=own)
            elif endpoint.tls:
                context = await load_tls_context(host, endpoint, user)
                own = await connect(endpoint.host, endpoint.port)
                undo.callback(own.close)
                await loop.create_connection(
                    lambda: transport,
                    sock=own,
                    ssl=context,
                    server_hostname=expected_name(endpoint),
                    ssl_handshake_timeout=endpoint.connection_timeout_s,
                )
            else:
                own = await connect(endpoint.host, endpoint.port)
                undo.callback(own.close)
                await loop.create_connection(lambda: transport, sock=own)
            undo.pop_all()
    except TimeoutError:
        raise
    except OSError as error:
        raise LinkError(describe_error(error)) from None
    except UnicodeError:  # of a label that is empty or longer than 63 letters
        raise LinkError("the URI has no valid name of a host") from None


def early_close(endpoint: Endpoint) -> str:
    """Return why an upstream may close the socket before it sends connection.start.

    With TLS 1.3 the client's handshake is over before the server has looked at its certificate.
    """
    if not endpoint.tls:
        return "the upstream closed the connection before AMQP began: the port may be one for TLS (amqps://)"
    line = "the upstream closed the connection right after the TLS handshake"
    if endpoint.certfile:
        return f"{line}: it may not accept the client certificate"
    return f"{line}: it may require a client certificate (certfile= and keyfile= in the URI)"


async def load_tls_context(host: Host, endpoint: Endpoint, user: User | None) -> ssl.SSLContext:
    """Return the TLS context of an endpoint. Raises LinkError if a file cannot be used.

    A user who is no administrator may name files that he may not read himself. So the reason is only logged.
    """
    try:
        return await asyncio.to_thread(make_context, endpoint)
    except LinkError as fault:
        if user is None:
            raise
        fields: dict[str, object] = {"user": user.name, "uri": endpoint.safe, "reason": fault.text}
        host.report("federation_file_unusable", "warning", fields)
        raise LinkError("cannot use a file that the URI names, the broker's log says why") from None


async def resolve(host: str, port: int, *, type: int) -> list[Any]:
    """Return the addresses of a host, as socket.getaddrinfo does. Raises OSError."""
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=type)


async def connect(host: str, port: int) -> socket.socket:
    """Open a TCP connection to the first address of the host that answers. Raises OSError.

    Each address has CONNECT_S to answer. The system would try for two minutes with its first route and source address,
    which may no longer exist after an outage of the network.
    """
    loop = asyncio.get_running_loop()
    last: OSError = TimeoutError()
    for family, kind, protocol, _, address in await resolve(host, port, type=socket.SOCK_STREAM):
        with ExitStack() as undo:
            try:
                connecting = socket.socket(family, kind, protocol)
                undo.callback(connecting.close)
                connecting.setblocking(False)
                connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                async with asyncio.timeout(CONNECT_S):
                    await loop.sock_connect(connecting, address)
            except OSError as error:  # TimeoutError is one
                last = error
                continue
            undo.pop_all()
            return connecting
    try:
        raise last
    finally:
        del last  # a cycle with its traceback


class EventDispatcher(UpstreamEvents):
    """The dispatcher of one transport's events to the link and to the channels of its connection."""

    def __init__(self, host: Host, deliveries: Callable[[list[Delivery]], None]) -> None:
        self.deliveries = deliveries
        self.channels: dict[int, UpstreamChannel] = {}
        self.answer_cancel: Callable[[int, str], None] = no_answer
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


@dataclass(eq=False, repr=False)
class UpstreamConnection:
    """A connection to an upstream, usable after `log_in`.

    `ended` is completed with the reason when the connection is closed; `direct`: it connects to this same broker,
    without TCP; `cluster_name` is the upstream's, or None.
    """

    transport: UpstreamTransport
    _dispatcher: EventDispatcher
    endpoint: Endpoint
    vhost: str
    _properties: Table

    def __post_init__(self) -> None:
        self.safe_uri = self.endpoint.safe
        self.direct = self.endpoint.direct
        self.ended = self.transport.ended
        self.server_properties: dict[str, Any] = {}
        self.cluster_name: str | None = None
        self.capabilities: frozenset[str] = frozenset()
        self._connection: PlainConnection | None = None
        self._channel_max = 0

    async def log_in(self) -> None:
        """Perform the AMQP handshake. Raises LinkError."""
        underlay = AiormqConnection(self.transport, self.endpoint, self.vhost, self._properties)
        self._connection = PlainConnection(underlay)
        await self._run(self._connection.connect())
        self.transport.parser.frame_max = underlay.frame_max
        self._channel_max = underlay.connection_tune.channel_max
        self.server_properties = dict(underlay.server_properties)
        cluster_name = self.server_properties.get("cluster_name")
        self.cluster_name = cluster_name if isinstance(cluster_name, str) else None
        if len((self.cluster_name or "").encode("utf-8", "surrogateescape")) > CLUSTER_NAME_MAX:
            raise LinkError(f"the upstream's cluster name has more than {CLUSTER_NAME_MAX} bytes")
        capabilities = self.server_properties.get("capabilities")
        if isinstance(capabilities, dict):
            self.capabilities = frozenset(name for name, value in capabilities.items() if value is True)
        if WAITS_FOR_CANCEL_OK in self.capabilities:
            self._dispatcher.answer_cancel = self._answer_cancel
        if self.endpoint.heartbeat_s:
            self.transport.watch_heartbeats(self.endpoint.heartbeat_s)

    def leads_back(self, host: Host) -> bool:
        """Whether the connection is one from this broker to itself."""
        if self.direct or self.transport.socket is None:
            return self.direct
        own = self.transport.socket.get_extra_info("sockname")
        return any((one.peer.host, one.peer.port) == (own[0], own[1]) for one in host.connections())

    @property
    def is_warren(self) -> bool:
        """Whether the upstream is a Warren, whose `product` may be that of RabbitMQ."""
        return str(self.server_properties.get("platform", "")).startswith("Python ")

    async def channel(self) -> UpstreamChannel:
        """Open a channel. Raises LinkError."""
        channels = self._dispatcher.channels
        number = next(number for number in count(1) if number not in channels)
        if self._channel_max and number > self._channel_max:
            raise LinkError(f"the upstream allows {self._channel_max} channels on a connection")
        channel = channels[number] = UpstreamChannel(number, self.transport, self._close_channel)
        await self.transport.call(number, CHANNEL_OPEN, encode_short(""))
        return channel

    async def _close_channel(self, channel: UpstreamChannel) -> None:
        """Close a channel, even if the connection is lost."""
        if not channel.ended.done():
            channel.ended.set_result(LinkError("closed"))
            try:
                await self.transport.call(channel.number, CHANNEL_CLOSE, NORMAL)
            except LinkError:
                pass  # the connection is lost, and the channel with it
            finally:
                self._dispatcher.channels.pop(channel.number, None)
                self.transport.drop_channel(channel.number, channel.ended.result())

    async def abandon(self) -> None:
        """Close a connection whose handshake did not complete."""
        self.transport.abort("given up")
        await self.close(CLEAN_UP_S)

    async def close(self, timeout_s: float) -> None:
        """Send connection.close and wait up to `timeout_s` for the reply. Further deliveries are discarded."""
        self._dispatcher.deliveries = discard
        self.transport.release()
        try:
            if self._connection is not None:
                async with asyncio.timeout(timeout_s):
                    await self._run(self._connection.close())
        except (LinkError, TimeoutError):
            pass  # it is aborted anyway
        finally:
            self.transport.abort("closed")
            self._release()

    def _release(self) -> None:
        """Break the cycles of a closed connection, so that reference counts free it."""
        self._dispatcher.answer_cancel = no_answer
        self._dispatcher.channels.clear()
        if self._connection is not None:
            self.transport.loop.call_later(RELEASE_S, self._connection.underlay.release)
            self._connection = None

    def _answer_cancel(self, channel: int, consumer_tag: str) -> None:
        self.transport.send(channel, CANCEL_OK, encode_short(consumer_tag))

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a call to aio-pika in a task of its own. Raises LinkError.

        aio-pika may raise CancelledError although the caller was not cancelled, and may not end with the connection.
        """
        task = self.transport.loop.create_task(work)
        task.add_done_callback(mark_retrieved)
        either: list[asyncio.Future[Any]] = [task, self.ended]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait([task], timeout=CLEAN_UP_S)
        finally:
            task.cancel()
        error = task.exception() if task.done() and not task.cancelled() else asyncio.CancelledError()
        if error is None:
            return task.result()
        if isinstance(error, LinkError):
            raise error.copy() from None
        if self.transport.fault is not None:
            raise self.transport.fault.copy() from None
        if self.ended.done() and not isinstance(error, ProtocolSyntaxError):
            raise LinkError(self.ended.result())
        raise LinkError("the upstream does not speak AMQP 0-9-1 as it should")


def no_answer(channel: int, consumer_tag: str) -> None:
    """Send no cancel-ok."""


def discard(deliveries: list[Delivery]) -> None:
    """Drop the deliveries of a closing connection; the upstream requeues them, because they are unacknowledged."""


def client_properties(name: str, cluster_name: str) -> Table:
    """Return the client properties, which the upstream shows to its operators; `cluster_name` is this broker's."""
    return Table.of(
        {
            "product": PRODUCT,
            "version": product_version(),
            "platform": f"Python {platform.python_version()}",
            "connection_name": name,
            "cluster_name": cluster_name,
            "capabilities": dict.fromkeys(CAPABILITIES, True),
        }
    )


def check_login(node: Node, user: User | None, endpoint: Endpoint, socket: asyncio.BaseTransport | None) -> None:
    """Raise LinkError for a login on this machine as a loopback-only user, unless the link acts for the node."""
    if user is None or endpoint.user not in node.users.loopback_only or endpoint.mechanisms == ("external",):
        return
    if endpoint.direct or socket is None or is_local_peer(socket):
        raise LinkError(
            f"user '{endpoint.user}' can only log in from this machine, and upstreams of '{user.name}' may not"
        )


def is_local_peer(socket: asyncio.BaseTransport) -> bool:
    """Whether the peer's address is one of this machine."""
    peer, own = socket.get_extra_info("peername"), socket.get_extra_info("sockname")
    try:
        return peer[0] == own[0] or ipaddress.ip_address(peer[0].partition("%")[0]).is_loopback
    except (TypeError, IndexError, ValueError):
        return True
