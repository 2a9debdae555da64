"""The brokers of a migration at their HTTP APIs. Both source and target may be RabbitMQ or Warren."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from warren.broker.amqp.errors import Invalid
from warren.broker.core.metadata.patterns import Pattern
from warren.broker.core.metadata.unfinished_import import ADVICE, UNFINISHED_IMPORT
from warren.broker.ctl.api_client import API
from warren.broker.ctl.errors import UNAVAILABLE, ExitError, NotFound

REQUEST_S = 120.0  # the time of all requests of one call: the definitions of a large broker take a while
QUEUE_COLUMNS = (
    "vhost", "name", "type", "durable", "auto_delete", "exclusive", "arguments", "messages_ready",
    "messages_unacknowledged", "message_stats.ack",
)  # fmt: skip
WARREN = "Warren"
CLUSTER_ID = "internal_cluster_id"  # the global parameter that differs between clusters
PORTS = 65_535
SCHEMES = {"amqp": "amqp", "amqp/ssl": "amqps"}  # of the listeners in an overview

Document = dict[str, Any]


class QueueName(NamedTuple):
    """The identity of a queue."""

    vhost: str
    name: str


class QueueState(NamedTuple):
    """A queue at the source."""

    ready: int
    unacked: int  # messages with consumers, including the migration's links
    acked: int  # the broker's count of acknowledged messages
    fields: Document


class Broker:
    """A broker at its HTTP API.

    `connect` opens a client; each call opens one, since the broker may restart during a migration. `user` is the name
    that the calls have there, `globals` are the global parameters.

    All methods raise APIError, Unreachable, TimeoutError.
    """

    def __init__(self, connect: Callable[[], API]) -> None:
        self._connect = connect
        with closing(connect()) as api:
            overview = api.get("overview")
            self.user = str(api.get("whoami")["name"])
            self.globals = {str(each["name"]): each["value"] for each in api.get("global-parameters")}
            self.address = api.address
        self.product = str(overview.get("product_name", "RabbitMQ"))
        self.version = str(overview.get("product_version") or overview.get("rabbitmq_version"))
        self.node = str(overview.get("node", ""))
        self.exchange_types = {str(each["name"]) for each in overview["exchange_types"]}
        self._listeners: list[Document] = overview.get("listeners", [])

    def __str__(self) -> str:
        return f"{self.product} {self.version} at {self.address}"

    @property
    def is_warren(self) -> bool:
        return self.product == WARREN

    def is_same(self, other: Broker) -> bool:
        """Return whether both are one broker, possibly at different addresses."""
        id = self.globals.get(CLUSTER_ID)
        same_id = id is not None and (id, self.node) == (other.globals.get(CLUSTER_ID), other.node)
        return self.address == other.address or same_id

    def check_definitions(self, place: str) -> None:
        """Raise ExitError (69) if the broker, which is the `place`, has only a part of an import of definitions."""
        if UNFINISHED_IMPORT in self.globals:
            advice = f"let the import end; if a crash has interrupted it, {ADVICE}"
            raise ExitError(UNAVAILABLE, f"the {place}, {self}, has only a part of an import of definitions: {advice}")

    def get(self, *path: str, **query: str) -> Any:
        with closing(self._connect()) as api:
            return api.get(*path, **query)

    def post(self, *path: str, body: object) -> Any:
        with closing(self._connect()) as api:
            return api.post(*path, body=body)

    def put_parameters(self, component: str, values: Iterable[tuple[str, str, object]]) -> None:
        """Set parameters: virtual host, name and value of each."""
        with closing(self._connect()) as api:
            for vhost, name, value in values:
                api.put("parameters", component, vhost, name, body={"value": value})

    def delete_parameters(self, component: str, names: Iterable[tuple[str, str]]) -> None:
        """Delete parameters: virtual host and name of each."""
        with closing(self._connect()) as api:
            for vhost, name in names:
                api.delete("parameters", component, vhost, name)

    def vhosts(self) -> set[str]:
        """Return the names of all virtual hosts."""
        return {str(row["name"]) for row in self.get("vhosts", columns="name")}

    def declared(self, section: str) -> list[Document]:
        """Return the properties of all `queues` or `exchanges`, transient ones included."""
        objects: list[Document] = self.get(section, columns="vhost,name,type,durable,auto_delete,arguments")
        return objects

    def queues(self) -> dict[QueueName, QueueState]:
        """Return all queues, in order of their names."""
        rows = self.get("queues", columns=",".join(QUEUE_COLUMNS))
        states = {QueueName(row["vhost"], row["name"]): queue_state(row) for row in rows}
        return dict(sorted(states.items()))

    def connections(self) -> list[tuple[str, str]]:
        """Return the virtual host and the client's name of each connection; the name is empty if unknown."""
        rows = self.get("connections", columns="vhost,user_provided_name,client_properties")
        return [(str(row.get("vhost", "")), connection_name(row)) for row in rows]

    def delayed(self, vhosts: set[str]) -> int:
        """Return the number of messages in delayed exchanges of these virtual hosts."""
        rows = self.get("exchanges", columns="vhost,messages_delayed")
        return sum(row.get("messages_delayed") or 0 for row in rows if row["vhost"] in vhosts)

    def unreadable(self, user: str, queues: Iterable[QueueName]) -> list[QueueName]:
        """Return the queues that the user may not read; none if this broker does not know the user's permissions."""
        try:
            rows = self.get("users", user, "permissions")
        except NotFound:
            return []
        patterns = {str(row["vhost"]): pattern_of(str(row["read"])) for row in rows}
        return [one for one in queues if one.vhost not in patterns or not matches(patterns[one.vhost], one.name)]

    def amqp_uri(self, credentials: str, host: str) -> str:
        """Return the URI of its first AMQP listener, rather without TLS. Raises ExitError (69) if it has no port."""
        for protocol, scheme in SCHEMES.items():
            for listener in self._listeners:
                if listener["protocol"] == protocol:
                    return f"{scheme}://{credentials}@{host}:{port_of(listener)}"
        return f"amqp://{credentials}@{host}"


def port_of(listener: Document) -> int:
    """Return the port of a listener as a number, since it becomes part of a URI. Raises ExitError (69)."""
    try:
        port = int(listener["port"])
    except (KeyError, TypeError, ValueError):
        port = 0
    if not 0 < port <= PORTS:
        raise ExitError(UNAVAILABLE, "the source gives no port of its AMQP listener: name one with --amqp")
    return port


def pattern_of(text: str) -> Pattern | None:
    """Return a pattern of permissions; None for one that this broker does not know."""
    try:
        return Pattern(text)
    except Invalid:
        return None


def matches(pattern: Pattern | None, name: str) -> bool:
    """Return whether a pattern of permissions may match a name; unknown and slow patterns match all names."""
    return pattern is None or pattern.search(name) is not False


def queue_state(row: Document) -> QueueState:
    acked = (row.get("message_stats") or {}).get("ack", 0)
    return QueueState(row.get("messages_ready") or 0, row.get("messages_unacknowledged") or 0, acked, row)


def connection_name(row: Document) -> str:
    properties = row.get("client_properties")
    name = properties.get("connection_name", "") if isinstance(properties, dict) else ""
    return str(row.get("user_provided_name") or name)


def with_vhost(uri: str, vhost: str) -> str:
    """Return an AMQP URI with this virtual host in place of its own."""
    parts = urlsplit(uri)
    return parts._replace(path="/" + quote(vhost, safe="")).geturl()
