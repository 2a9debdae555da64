"""Connections of clients."""

from __future__ import annotations

from warren.broker.plugin import Connection, User, json_of_table

from ..auth import ANY, OWN, VHOST
from ..pagination import Item, Listing
from ..request import Request
from ..responses import Response, done, found, missing
from ..router import Route
from ..stats.counters import connection_key
from ..views.stats import NO_PROCESS, StatsView

REASON = "Closed via management plugin"


def list_connections(request: Request) -> Listing[Connection]:
    """Those that the user may see."""
    return listed(request, open_connections(request))


def list_of_vhost(request: Request) -> Listing[Connection]:
    """Those to one virtual host."""
    vhost = request.here()
    return listed(request, [one for one in open_connections(request) if one.vhost is vhost])


def list_of_user(request: Request) -> Listing[Connection]:
    """Those of one user."""
    user = the_user(request)
    own = [one for one in open_connections(request) if user is not None and one.user is user]
    return Listing(own, identified, lambda one: one.name)


def get_connection(request: Request) -> Response:
    """One connection."""
    return found(described(StatsView(request), the_connection(request)))


def delete_connection(request: Request) -> Response:
    """Close it, with the text of the header X-Reason."""
    connection = the_connection(request)
    request.host.close_connections(lambda one: one is connection, reason_of(request))
    return done()


def delete_of_user(request: Request) -> Response:
    """Close all of one user."""
    user = the_user(request)
    if user is not None:
        request.host.close_connections(lambda one: one.user is user, reason_of(request))
    return done()


def reason_of(request: Request) -> str:
    """The octets of a header are UTF-8 here, and not the Latin-1 as which they were read."""
    return request.headers.get("x-reason", "").encode("latin-1").decode("utf-8", "replace") or REASON


def open_connections(request: Request) -> list[Connection]:
    """Those that have said who they are and where to."""
    return sorted((one for one in request.connections() if one.vhost is not None), key=lambda one: one.name)


def the_connection(request: Request) -> Connection:
    """Raises Refusal (401, 404)."""
    for connection in request.host.connections():
        if connection.name == request.path["name"] and connection.vhost is not None:
            request.check_own(connection.user)
            return connection
    raise missing()


def the_user(request: Request) -> User | None:
    """None where there is none of that name. Raises Refusal (401)."""
    user = request.node.users.get(request.path["user"])
    request.check_own(user)
    return user


def listed(request: Request, connections: list[Connection]) -> Listing[Connection]:
    figures = StatsView(request)
    return Listing(connections, lambda one: described(figures, one), lambda one: one.name)


def identified(connection: Connection) -> Item:
    assert connection.user is not None
    return {
        "name": connection.name,
        "vhost": connection.vhost_name,  # also of one that has ended since the list was begun
        "user": connection.user.name,
        "node": connection.node.name,
    }


def described(figures: StatsView, connection: Connection) -> Item:
    peer = connection.peer
    item = identified(connection) | {
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
    if connection.client_name:
        item["user_provided_name"] = connection.client_name
    item |= encryption(connection)
    if figures.told:
        octets = {"recv_oct": connection.received_bytes, "send_oct": connection.sent_bytes}
        item |= figures.details("connection", connection_key(connection), octets)
        item |= {"recv_cnt": connection.received_reads, "send_cnt": connection.sent_writes}
        item |= {"send_pend": len(connection.output.buffer), **NO_PROCESS}
    return item


def encryption(connection: Connection) -> Item:
    """What TLS settled on, if there is any."""
    tls = connection.peer.encryption
    return {
        "ssl": tls is not None,
        "ssl_protocol": tls.protocol if tls is not None else None,
        "ssl_cipher": tls.cipher if tls is not None else None,
        "ssl_hash": None,
        "ssl_key_exchange": None,
        "peer_cert_subject": (tls.subject or None) if tls is not None else None,
        "peer_cert_issuer": (tls.issuer or None) if tls is not None else None,
        "peer_cert_validity": (tls.validity or None) if tls is not None else None,
    }


ROUTES = (
    Route("GET", "/connections", ANY, list_connections),
    Route("GET", "/vhosts/{vhost}/connections", VHOST, list_of_vhost),
    Route("GET", "/connections/{name}", OWN, get_connection),
    Route("DELETE", "/connections/{name}", OWN, delete_connection),
    Route("GET", "/connections/username/{user}", OWN, list_of_user),
    Route("DELETE", "/connections/username/{user}", OWN, delete_of_user),
)
