"""Routes for connections."""

import asyncio
from typing import Any, NotRequired, TypedDict, cast

import msgspec

from warren.broker.amqp.table_json import json_of_table
from warren.broker.plugin import User
from warren.broker.session.connection import Connection

from ...http.auth import ANY, OWN, VHOST
from ...http.responses import Response, done, missing, ok
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route
from ..stats.counters import connection_key
from ..stats.history import BYTE_COUNTERS
from ..views.stats import NO_PROCESS, Process, RequestStats, optional, required, with_counters

# Fields that are null without TLS.
OF_TLS = (
    *("ssl_protocol", "ssl_cipher", "ssl_hash", "ssl_key_exchange"),
    *("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity"),
)


class PeerView(TypedDict):
    """The name of a connection and the address of its client; a link within the broker has none."""

    name: str
    peer_host: str
    peer_port: int | str


class ConnectionIdentity(msgspec.Struct):
    """A connection in the list of its user."""

    name: str
    vhost: str
    user: str
    node: str


@with_counters(*BYTE_COUNTERS)
@required(str, "name", "vhost", "user", "node", "user_who_performed_action", "protocol", "type", "auth_mechanism")
@required(str, "host", "peer_host", "state")
@required(int, "port", "peer_port", "channels", "channel_max", "frame_max", "timeout", "connected_at")
@optional(str, "pid", "user_provided_name")
@optional(int, "recv_cnt", "send_cnt", "send_pend")
@optional(str | None, *OF_TLS)
class ConnectionView(Process):
    """A connection. The process id is only for callers at the unix socket.

    The fields about TLS are null in lists and otherwise empty if it has none.
    """

    client_properties: dict[str, object]
    ssl: NotRequired[bool]


def connection_identity(connection: Connection) -> ConnectionIdentity:
    assert connection.user is not None
    return ConnectionIdentity(connection.name, connection.vhost_name, connection.user.name, connection.node.name)


def connection_view(stats: RequestStats, connection: Connection) -> ConnectionView:
    peer, tls = connection.peer, connection.peer.encryption
    assert connection.user is not None
    item: Any = {
        "name": connection.name,
        "vhost": connection.vhost_name,  # also set for a connection that closed after the list was begun
        "user": connection.user.name,
        "node": connection.node.name,
        "user_who_performed_action": connection.login_name,
        "protocol": "AMQP 0-9-1",
        "type": "network",
        "auth_mechanism": connection.mechanism,
        "host": peer.local_host,
        "port": peer.local_port,
        "peer_host": peer.host,
        "peer_port": peer.port,
        "state": connection.state_text,
        "channels": len(connection.channels),
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "timeout": connection.heartbeat_s,
        "connected_at": connection.connected_at_ms,
        "client_properties": json_of_table(connection.client_properties),
    }
    if stats.pids:
        item["pid"] = str(connection)
    if connection.client_name:
        item["user_provided_name"] = connection.client_name
    item |= {"ssl": tls is not None, **dict.fromkeys(OF_TLS)}
    if tls is not None:
        item |= {"ssl_protocol": tls.protocol, "ssl_cipher": tls.cipher, "peer_cert_subject": tls.subject or None}
        item |= {"peer_cert_issuer": tls.issuer or None, "peer_cert_validity": tls.validity or None}
    if stats.enabled:
        size_counters = {"recv_oct": connection.received_bytes, "send_oct": connection.sent_bytes}
        item |= stats.details("connection", connection_key(connection), size_counters)
        item |= {"recv_cnt": connection.received_reads, "send_cnt": connection.sent_writes}
        item |= {"send_pend": len(connection.output.buffer)}
        item |= NO_PROCESS
    return cast(ConnectionView, item)


REASON = "Closed via management plugin"
CLOSED_AT_ONCE = 100  # closing them takes some milliseconds


@route("GET", ANY, "/connections")
@route("GET", VHOST, "/vhosts/{vhost}/connections")
def list_connections(request: Request) -> Listing[ConnectionView]:
    """List the connections that the user may see, or those of them to one virtual host."""
    stats = RequestStats(request)
    return Listing(open_connections(request), lambda one: connection_view(stats, one), lambda one: one.name)


@route("GET", OWN, "/connections/username/{user}")
def list_of_user(request: Request) -> Listing[ConnectionIdentity]:
    """List the connections of one user."""
    user = user_of(request)
    own = [one for one in open_connections(request) if user is not None and one.user is user]
    return Listing(own, connection_identity, lambda one: one.name)


@route("GET", OWN, "/connections/{name}")
async def get_connection(request: Request) -> Response[ConnectionView]:
    """Return one connection."""
    item: Any = connection_view(RequestStats(request), await connection_of(request))
    return ok(item | {name: item[name] or "" for name in OF_TLS})


@route("DELETE", OWN, "/connections/{name}")
async def delete_connection(request: Request) -> Response[None]:
    """Close a connection, with the text of the header X-Reason."""
    connection = await connection_of(request)
    with request.acting():
        request.host.close_connection(connection, reason_of(request))
    return done()


@route("DELETE", OWN, "/connections/username/{user}")
async def delete_of_user(request: Request) -> Response[None]:
    """Close all connections of one user, in slices."""
    user = user_of(request)
    own = [one for one in request.host.connections() if user is not None and one.user is user]
    for start in range(0, len(own), CLOSED_AT_ONCE):
        if start:
            await request.complete(asyncio.sleep(0))
        with request.acting():
            for connection in own[start : start + CLOSED_AT_ONCE]:
                request.host.close_connection(connection, reason_of(request))
    return done()


def reason_of(request: Request) -> str:
    """Return X-Reason as UTF-8; headers have been decoded as Latin-1."""
    return request.incoming.headers.get("x-reason", "").encode("latin-1").decode("utf-8", "replace") or REASON


def open_connections(request: Request) -> list[Connection]:
    """Return the connections that have opened the virtual host in the path, or any if the path has none."""
    vhost = request.vhost
    opened = (one for one in request.connections() if one.vhost is not None and vhost in (None, one.vhost))
    return sorted(opened, key=lambda one: one.name)


async def connection_of(request: Request) -> Connection:
    """Return the connection in the path, which is searched for in slices. Raises HTTPError (401, 404)."""
    async for connection in request.in_slices(request.host.connections()):
        if connection.name == request.path["name"] and connection.vhost is not None:
            request.check_owner(connection.user)
            return connection
    raise missing()


def user_of(request: Request) -> User | None:
    """Return the user in the path, or None. Raises HTTPError (401)."""
    user = request.node.users.get(request.path["user"])
    request.check_owner(user)
    return user
