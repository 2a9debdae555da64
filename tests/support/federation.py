"""Brokers in this process that federate: each a whole broker on a port of 127.0.0.1, all of them on one loop.

A `Site` is a broker, a `Place` one of its virtual hosts, which is all that most scenarios need two of.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from warren.broker.amqp.field_table import Table, Value
from warren.broker.amqp.properties import Properties
from warren.broker.app.build import build_node, build_settings
from warren.broker.app.listeners import tls
from warren.broker.app.open_storage import Store
from warren.broker.config import Config, SSLOptions
from warren.broker.config.config import Federation
from warren.broker.core.exchanges.built_in import new_registry
from warren.broker.core.exchanges.exchange import Exchange
from warren.broker.core.exchanges.exchange_type import Registry
from warren.broker.core.queues.queue import Queue
from warren.broker.net.server import Server
from warren.broker.plugin_host.loading import load_exchange_types
from warren.broker.runtime.clock import LoopClock
from warren.federation.service import FederationService
from warren.federation.upstream_exchange import FederationUpstreamExchange

from .amqp_client import Channel, Client, Content
from .http import Response, asgi_scope, call_application
from .in_process import new_host
from .loop_thread import LoopThread
from .peer import SocketPeer
from .polling import links_running, until

SOON_S = 0.1  # the delay between attempts
CHECK_MS = 300  # between two looks of a link at what it has upstream
UPSTREAM_TYPE = "x-federation-upstream"

T = TypeVar("T")
Row = dict[str, Any]
_numbers = itertools.count(1)


def registry() -> Registry:
    """All exchange types, with that of federation."""
    types = new_registry()
    load_exchange_types(types)
    if UPSTREAM_TYPE not in types.names():
        types.register(UPSTREAM_TYPE, FederationUpstreamExchange)
    return types


class Site:
    """A broker in memory. `log` has what it reported: event, level, fields.

    Its cluster is called as the site is; `settings` are those of `Config`.
    """

    def __init__(self, loop: LoopThread, name: str, **settings: Any) -> None:
        self.loop = loop
        self.name = name
        self.log: list[tuple[str, str, dict[str, object]]] = []
        named = {"cluster_name": name, "node": f"{name}@test", "listeners_tcp": (("127.0.0.1", 0),)}
        federation = Federation(internal_exchange_check_interval=CHECK_MS)
        self.config = Config(**{"memory": True, "federation": federation, **named, **settings})
        self.federation = FederationService()
        self.port = 0
        self.loop.run(self._start())
        self.peer = SocketPeer(f"127.0.0.1:{self.port}")

    async def _start(self) -> None:
        clock = LoopClock(self.loop.loop)
        self.node = build_node(self.config, clock, Store(self.config), None, registry())
        self.server = Server(self.node, build_settings(self.config), 10, self._report)
        self.port = int((await self.server.listen("127.0.0.1", 0))[0].rpartition(":")[2])

        def with_tls(options: SSLOptions) -> Any:
            return tls(self.config, self._report, options)

        self.host = new_host(self.node, self.config, self.server, with_tls)
        await self.begin_federating()

    def _report(self, event: str, level: str, fields: dict[str, object]) -> None:
        self.log.append((event, level, fields))

    async def begin_federating(self) -> None:
        self.federation = FederationService()
        self.host.services["federation"] = self.federation
        await self.federation.start(self.host)

    async def stop_federating(self) -> None:
        await self.host.services.pop("federation").stop()

    def close(self) -> None:
        self.peer.close()
        if "federation" in self.host.services:
            self.loop.run(self.stop_federating())
        self.loop.run(self.server.stop("shutdown"))

    # What it is asked

    def place(self, vhost: str = "") -> "Place":
        """The virtual host with this name, or a new one, with all permissions for guest."""
        name = vhost or f"{self.name}-{next(_numbers)}"

        def make() -> None:
            with self.host.acting("guest"):
                if name not in self.node.vhosts:
                    self.node.add_vhost(name)
                self.node.users.set_permission("guest", name, ".*", ".*", ".*")

        self.loop.call(make)
        return Place(self, name)

    def rows(self) -> list[Row]:
        """The status of each link."""
        return self.loop.call(self.federation.status)

    def request(self, method: str, path: str, body: object = None, user: str = "guest", **more: Any) -> Response:
        """Return the response of the HTTP API; `path` is what follows /api."""
        from warren.plugins.management.dispatcher import application
        from warren.plugins.management.framework.state import ManagementState

        if not hasattr(self, "_application"):
            self._application = application(self.host, ManagementState(self.host))
        scope, encoded = asgi_scope(method, path, body, user, **more)
        return self.loop.run(call_application(self._application, scope, encoded))

    def connections(self, name: str) -> list[Any]:
        """The connections of clients with this name."""

        def look() -> list[Any]:
            return [one for one in self.host.connections() if one.client_name == name]

        return self.loop.call(look)

    def add_user(self, name: str, vhosts: Mapping[str, tuple[str, str, str]], tags: tuple[str, ...] = ()) -> None:
        """Add a user with permissions to configure, write and read; the password is the name."""
        from warren.broker.core.access.passwords import hash_password

        def add() -> None:
            with self.host.acting("guest"):
                self.node.users.add(name, hash_password(name, b"salt"), tags)
                for vhost, rights in vhosts.items():
                    self.node.users.set_permission(name, vhost, *rights)

        self.loop.call(add)


class Place:
    """A virtual host of a site. Keys of upstreams are written max_hops for max-hops; links try again soon."""

    def __init__(self, site: Site, vhost: str) -> None:
        self.site = site
        self.vhost = vhost
        self._clients: list[Client] = []
        self._shared: Channel | None = None

    @property
    def inside(self) -> str:
        """The URI of the virtual host for links of the same broker."""
        return f"amqp:///{escaped(self.vhost)}"

    @property
    def uri(self) -> str:
        return self.through(self.site.port)

    def through(self, port: int, query: str = "", user: str = "guest:guest") -> str:
        """The URI of the virtual host by a port of this machine."""
        return f"amqp://{user}@127.0.0.1:{port}/{escaped(self.vhost)}{query}"

    def upstream_queue(self) -> str:
        """Return the name of the upstream queue of a link to the exchange `fed.x` here."""
        return f"federation: fed.x -> {self.site.name}:{self.vhost}:fed.x"

    def connect(self, **options: Any) -> Client:
        client = self.site.peer.connect(vhost=self.vhost, **options)
        self._clients.append(client)
        return client

    def channel(self) -> Channel:
        """Open a channel on a new connection."""
        return self.connect().channel()

    @property
    def ch(self) -> Channel:
        """The channel that the test uses again and again."""
        if self._shared is None:
            self._shared = self.channel()
        return self._shared

    def close(self) -> None:
        for client in self._clients:
            client.vanish()
        if self.vhost in self.site.node.vhosts:
            self.act(self.site.node.delete_vhost, self.vhost)

    # What operators do

    def act(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function on the loop as an operator."""

        def acting() -> T:
            with self.site.host.acting("guest"):
                return function(*args)

        return self.site.loop.call(acting)

    def upstream(self, name: str, uri: str | list[str], **settings: Any) -> None:
        value = {"uri": uri, "reconnect_delay": SOON_S, **settings}
        self.parameter("federation-upstream", name, hyphened(value))

    def upstream_set(self, name: str, *elements: Mapping[str, Any]) -> None:
        self.parameter("federation-upstream-set", name, [hyphened(element) for element in elements])

    def parameter(self, component: str, name: str, value: object) -> None:
        self.act(self.site.node.parameters.set, self.vhost, component, name, value)

    def clear_upstream(self, name: str) -> None:
        self.act(self.site.node.parameters.clear, self.vhost, "federation-upstream", name)

    def policy(
        self, pattern: str, definition: Mapping[str, Any], name: str = "federate", priority: int = 0,
        apply_to: str = "all",
    ) -> None:  # fmt: skip
        self.act(self.site.node.policies.set, self.vhost, name, pattern, dict(definition), priority, apply_to)

    def clear_policy(self, name: str = "federate") -> None:
        self.act(self.site.node.policies.clear, self.vhost, name)

    def federate(self, pattern: str, *upstreams: str, **settings: Any) -> None:
        """Federate all that matches the pattern from these URIs, by upstreams named u0, u1 and so on."""
        for number, uri in enumerate(upstreams):
            self.upstream(f"u{number}", uri, **settings)
        self.policy(pattern, {"federation-upstream-set": "all"})

    def link(self, pattern: str, *upstreams: str, count: int = 1, **settings: Any) -> None:
        """Federate, and wait until this many links run."""
        self.federate(pattern, *upstreams, **settings)
        self.running(count)

    def linked(self, up: "Place", uri: str = "", key: str = "k", **settings: Any) -> str:
        """Federate the topic exchange `fed.x`; return the name of a queue that is bound to it with this key."""
        self.ch.exchange("fed.x", "topic")
        queue = self.listener("fed.x", key)
        self.link("^fed", uri or up.inside, **settings)
        up.bound("fed.x", key)
        return queue

    # What is there

    def rows(self) -> list[Row]:
        return [row for row in self.site.rows() if row["vhost"] == self.vhost]

    def row(self, name: str = "", upstream: str = "") -> Row:
        """Return the link, of this object and upstream if named, as soon as there is one."""

        def found() -> list[Row]:
            return [row for row in self.rows() if name in ("", row["name"]) and upstream in ("", row["upstream"])]

        rows = until(found, f"a link of {self.vhost}")
        assert len(rows) == 1, rows
        return rows[0]

    def running(self, count: int = 1) -> list[Row]:
        """Return the links, as soon as there are `count` and all of them run."""
        return links_running(self.rows, count, lambda: f"{count} links of {self.vhost} that run: {self.rows()}")

    def down(self) -> Row:
        """Return the link, as soon as it has failed."""
        rows = until(
            lambda: [row for row in self.rows() if row["status"] not in ("starting", "running")],
            lambda: f"a link that is down: {self.rows()}",
        )
        assert len(rows) == 1, rows
        return rows[0]

    def without_links(self) -> None:
        until(lambda: not self.rows(), lambda: f"no links: {self.rows()}")

    def look(self, function: Callable[[Any], T]) -> T:
        """Call a function with the virtual host on the loop; return its result."""
        return self.site.loop.call(lambda: function(self.site.node.vhosts[self.vhost]))

    def queue(self, name: str) -> Queue | None:
        found: Queue | None = self.look(lambda vhost: vhost.queues.get(name))
        return found

    def exchange(self, name: str) -> Exchange | None:
        found: Exchange | None = self.look(lambda vhost: vhost.exchanges.get(name))
        return found

    def queues(self) -> list[str]:
        return self.look(lambda vhost: sorted(vhost.queues))

    def exchanges(self) -> list[str]:
        """The names of exchanges, without the predeclared ones."""
        return self.look(lambda vhost: sorted(name for name in vhost.exchanges if name and name[:4] != "amq."))

    def ready(self, queue: str) -> int:
        """The number of messages that are ready in a queue; 0 if there is no such queue."""
        return self.look(lambda vhost: vhost.queues[queue].ready if queue in vhost.queues else 0)

    def unacked(self, queue: str) -> int:
        """The number of unacknowledged deliveries of a queue; 0 if there is no such queue."""
        return self.look(lambda vhost: vhost.queues[queue].unacked if queue in vhost.queues else 0)

    def bindings(self, exchange: str) -> list[tuple[str, str, Table]]:
        """The destination, key and arguments of each binding of the source exchange, sorted by key."""

        def look(vhost: Any) -> list[tuple[str, str, Table]]:
            out = vhost.exchanges[exchange].outgoing.values() if exchange in vhost.exchanges else ()
            found = [(binding.destination.name, binding.routing_key, binding.arguments) for binding in out]
            return sorted(found, key=lambda one: (one[1], one[0]))

        return self.look(look)

    def keys(self, exchange: str) -> list[str]:
        """The keys of the bindings that links of federation have made, sorted."""
        return [key for destination, key, _ in self.bindings(exchange) if destination.startswith("federation: ")]

    def bound(self, exchange: str, *keys: str) -> None:
        """Wait until links have bound just these keys."""
        until(lambda: self.keys(exchange) == sorted(keys), lambda: f"{sorted(keys)}: {self.keys(exchange)}")

    def consumers(self, queue: str = "fed.q") -> list[tuple[str, int]]:
        """The tag and priority of each consumer of a queue; none if there is no such queue."""

        def look(vhost: Any) -> list[tuple[str, int]]:
            return [(one.tag, one.priority) for one in vhost.queues[queue].consumers.all]

        return self.look(lambda vhost: look(vhost) if queue in vhost.queues else [])

    def consumer(self, queue: str = "fed.q", prefetch: int = 0, **fields: Any) -> Channel:
        """Consume on a new connection, with acknowledgements if there is a prefetch."""
        channel = self.channel()
        if prefetch:
            channel.qos(prefetch)
        channel.consume(queue, no_ack=not prefetch, **fields)
        return channel

    def fill(self, queue: str, *numbers: int) -> None:
        """Publish messages with these numbers as bodies."""
        self.ch.fill(queue, *(b"%d" % number for number in numbers))

    def listener(self, exchange: str, *keys: str, queue: str = "", **arguments: Any) -> str:
        """Declare a queue of this test and bind it with these keys, by default the empty one; return its name."""
        name = queue or f"listener-{next(_numbers)}"
        self.ch.declare(name, arguments=arguments)
        for key in keys or ("",):
            self.ch.bind(name, exchange, key)
        return name

    def counted(self, queue: str, count: int) -> None:
        """Wait until `count` messages are ready."""
        until(lambda: self.ready(queue) == count, lambda: f"{count} in {queue}: {self.ready(queue)}")

    def get(self, queue: str) -> Content:
        """Get the next message, as soon as there is one."""
        until(lambda: self.ready(queue), f"a message in {queue}")
        message = self.ch.get(queue)
        assert message is not None
        return message

    def bodies(self, queue: str, count: int) -> list[bytes]:
        """Get all messages, as soon as there are `count`; return their bodies."""
        self.counted(queue, count)
        return self.ch.drain(queue)


def hyphened(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in fields.items()}


def escaped(vhost: str) -> str:
    return vhost.replace("%", "%25").replace("/", "%2f")


def plain(value: Value | None) -> Any:
    """A field with its types, as tests write it: ("S", "text"), ("A", [...]), ("F", [(name, field), ...])."""
    if value is None:
        return None
    letter, content = value
    if isinstance(content, bytes):
        return letter, content.decode()
    if isinstance(content, Table):
        return letter, fields(content)
    return (letter, [plain(item) for item in content]) if isinstance(content, list) else value


def fields(table: Table) -> list[tuple[str, Any]]:
    return [(name, plain(value)) for name, value in table.items()]


def text(value: Value) -> str:
    content = plain(value)[1]
    assert isinstance(content, str)
    return content


def headers(content: Content) -> dict[str, Any]:
    """The headers of a message with their types."""
    table = Properties.decode(content.property_bytes).headers
    return dict(fields(table)) if table is not None else {}
