"""The topology of federation: brokers by their cluster names, and links in the direction of their messages.

A broker knows the links that it has itself, with the cluster name that the upstream gave at the handshake. Of brokers
that federate from it, it knows the internal exchange and the queue of each exchange link, and the connection of each
queue link. Bindings of exchange links name all brokers that they have passed, and so links that are farther away.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypedDict
from urllib.parse import urlsplit

import msgspec

from warren.broker.amqp.federation_headers import BOUND_FROM
from warren.broker.amqp.table_json import json_of_table
from warren.broker.core.policies.parameters import Parameter
from warren.broker.core.policies.upstream_parameters import safe_uri
from warren.broker.plugin import Exchange, Queue, Table
from warren.broker.session.connection import Connection

from ..stats.counters import channel_counters, channel_key, object_key, queue_counters
from ..stats.federation_links import Row, link_counters, link_key
from .consumer import consumers_of
from .stats import RequestStats

INTERNAL = "x-federation-upstream"  # the type of the internal exchanges that downstream links declare
DOWNSTREAM_NAME, DOWNSTREAM_VHOST = "x-downstream-name", "x-downstream-vhost"
UPSTREAM_OBJECT = "federation: "  # the beginning of the names of their exchanges and queues
CONNECTION_NAME = "Federation link"  # the beginning of the names of their connections
BINDINGS = 100  # of an internal exchange whose paths are read; most have the same
BROKERS = 250  # that are farther away than one link


class BrokerView(msgspec.Struct):
    name: str
    is_cluster_name: bool


class TopologyView(TypedDict):
    """Brokers, this one first, and the links between them, `from` an upstream `to` a downstream broker."""

    cluster_name: str
    brokers: list[BrokerView]
    links: list[dict[str, object]]


Item = dict[str, Any]


class Topology:
    """The known brokers and links. `here` is the cluster name of this broker."""

    def __init__(self, here: str) -> None:
        self.here = here
        self.links: list[Item] = []
        self._named = {here}  # brokers whose cluster name is known
        self._addresses: dict[tuple[str, str], str] = {}  # of upstreams, by virtual host and name
        self._by_address: dict[str, str] = {}  # cluster names
        self._ids: set[object] = set()
        self._distant: dict[tuple[str, str], None] = {}  # from upstream to downstream

    def add_address(self, upstream: Parameter) -> None:
        """Note the address of an upstream: the first of its URIs, whichever its links try."""
        uris = upstream.value["uri"] if isinstance(upstream.value, dict) else ""
        first = (uris[0] if uris else "") if isinstance(uris, list) else uris
        self._addresses[upstream.vhost, upstream.name] = host_and_port(safe_uri(str(first)))

    def name_upstreams(self, rows: list[Row]) -> None:
        """Note the cluster names of upstreams by their addresses, for links to them that were never connected."""
        for row in rows:
            if row["upstream_cluster_name"]:
                self._by_address[self._address_of(row)] = str(row["upstream_cluster_name"])
        self._named.update(self._by_address.values())

    def _address_of(self, row: Row) -> str:
        """Return host and port of a link's upstream; empty for this same broker."""
        known = self._addresses.get((str(row["vhost"]), str(row["upstream"])))
        return host_and_port(str(row["uri"])) if known is None else known

    def add_own_link(self, stats: RequestStats, row: Row) -> None:
        """Add a link of this broker. An upstream whose cluster name is unknown is named by its address."""
        address = self._address_of(row)
        upstream = str(row["upstream_cluster_name"]) or self._by_address.get(address) or address or self.here
        self.links.append({"from": upstream, "to": self.here} | own_link(stats, row))

    def add_downstream(self, link: Item | None) -> None:
        """Add a link of another broker; the links of this broker are listed with more details."""
        if link is None or link["to"] == self.here or (link["vhost"], link["id"]) in self._ids:
            return
        self._ids.add((link["vhost"], link["id"]))
        if link.pop("named"):
            self._named.add(str(link["to"]))
        self.links.append({"from": self.here} | link)

    def add_paths(self, exchange: Exchange) -> None:
        """Add the links that bindings have passed on their way to this internal exchange."""
        for binding in islice(exchange.incoming.values(), BINDINGS):
            passed = [self.here, *clusters_passed(binding.arguments)]
            for upstream, downstream in zip(passed[1:], passed[2:], strict=False):
                if len(self._distant) < BROKERS:
                    self._distant[upstream, downstream] = None

    def view(self) -> TopologyView:
        known = {(link["from"], link["to"]) for link in self.links}
        distant: list[Item] = [
            {"from": upstream, "to": downstream, "distant": True}
            for upstream, downstream in self._distant
            if (upstream, downstream) not in known and upstream != downstream
        ]
        links = [*self.links, *distant]
        named = self._named.union(*self._distant)
        names = {str(link[end]) for link in links for end in ("from", "to")} - {self.here}
        brokers = [BrokerView(name, name in named) for name in [self.here, *sorted(names)]]
        return {"cluster_name": self.here, "brokers": brokers, "links": links}


def host_and_port(uri: str) -> str:
    """Return host and port of a URI without credentials, or the URI if it is malformed."""
    try:
        return urlsplit(uri).netloc
    except ValueError:
        return uri


def own_link(stats: RequestStats, row: Row) -> Item:
    """Return the fields of a link of this broker."""
    counted = stats.details("link", link_key(row), link_counters(row)) if row["status"] == "running" else {}
    return {
        **{name: row[name] for name in ("type", "vhost", "name", "upstream", "upstream_name", "id")},
        **{name: row[name] for name in ("status", "state", "error", "backlog")},
        "rate": rate_of(counted, "confirm"),
    }


def exchange_link(stats: RequestStats, exchange: Exchange) -> Item | None:
    """Return the link of another broker that has declared this internal exchange; None if it has no queue yet."""
    queue = next((one.destination for one in exchange.outgoing.values() if isinstance(one.destination, Queue)), None)
    if queue is None:
        return None
    cluster_name, source = downstream_of(exchange, queue.name)
    consumers = consumers_of(queue)
    return {
        "to": cluster_name,
        "named": True,
        "type": "exchange",
        "vhost": queue.vhost,
        "name": source,
        "downstream_vhost": exchange.arguments.text(DOWNSTREAM_VHOST) or "",
        "id": queue.name,
        "queue": queue.name,
        "connection": consumers[0].channel.connection.name if consumers else "",
        "status": "running" if consumers else "disconnected",
        "backlog": queue.ready + queue.unacked,
        "rate": rate_of(stats.message_stats("queue", object_key(queue), queue_counters(queue)).get("message_stats")),
    }


def downstream_of(exchange: Exchange, queue: str) -> tuple[str, str]:
    """Return the cluster name of a downstream broker and the exchange here, from `federation: EXCHANGE -> CLUSTER...`.

    The cluster name is that of the arguments or of a binding, as the one in the queue's name may have a suffix.
    """
    source, _, target = queue.removeprefix(UPSTREAM_OBJECT).partition(" -> ")
    cluster = exchange.arguments.text(DOWNSTREAM_NAME)
    if cluster is None:
        passed = (clusters_passed(one.arguments) for one in islice(exchange.incoming.values(), BINDINGS))
        cluster = next((names[0] for names in passed if names), target.partition(":")[0])
    return cluster, source


def clusters_passed(arguments: Table) -> list[str]:
    """Return the cluster names in the header x-bound-from of a binding, the nearest first."""
    entries = json_of_table(arguments).get(BOUND_FROM)
    if not isinstance(entries, list):
        return []
    return [str(entry.get("cluster-name", "")) for entry in entries if isinstance(entry, dict)]


def queue_links(stats: RequestStats, connection: Connection) -> Iterator[Item]:
    """Yield the links of queues of another broker over this connection: one for each queue that it consumes from.

    A connection that consumes from none is that of a link without demand.
    """
    if not connection.client_name.startswith(CONNECTION_NAME) or connection.vhost is None:
        return
    cluster_name = connection.client_properties.text("cluster_name")
    common: Item = {
        "to": cluster_name or connection.peer.host,
        "named": cluster_name is not None,
        "type": "queue",
        "vhost": connection.vhost_name,
        "connection": connection.name,
        "status": "running",
    }
    consumed = [(channel, one.queue) for channel in connection.channels.values() for one in channel.consumers.values()]
    if not consumed:
        yield common | {"name": "", "id": connection.name, "state": "paused", "rate": 0.0}
    for channel, queue in consumed:
        if not queue.name.startswith(UPSTREAM_OBJECT):  # that of an exchange link
            counted = stats.message_stats("channel", channel_key(connection, channel), channel_counters(channel))
            yield common | {
                "name": queue.name,
                "id": f"{connection.name} {queue.name}",
                "queue": queue.name,
                "state": "flowing",
                "backlog": queue.ready + queue.unacked,
                "rate": rate_of(counted.get("message_stats")),
            }


def rate_of(counted: object, name: str = "deliver_get") -> object:
    """Return the rate of a counter in `message_stats`, messages a second; None if there are no samples."""
    details = counted.get(f"{name}_details") if isinstance(counted, dict) else None
    return details["rate"] if isinstance(details, dict) else None
