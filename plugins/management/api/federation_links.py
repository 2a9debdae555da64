"""Routes for federation links, which return 404 without the federation service, and for the topology."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict, cast

from warren.broker.core.policies.upstream_parameters import UPSTREAM

from ...http.auth import MONITOR, POLICIES
from ...http.responses import Response, done, existing, missing, ok
from ...http.time_slices import sorted_in_slices
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route
from ..stats.federation_links import Row, link_counters, link_key, links_of
from ..stats.rates import Counted
from ..views.federation_topology import INTERNAL, Topology, TopologyView, exchange_link, queue_links
from ..views.stats import RequestStats, optional, required

ALIKE = ("vhost", "type", "upstream", "id", "status", "uri")  # the same in the service's rows
# Fields that RabbitMQ does not have.
MORE = (
    *("policy", "retries", "reconnects", "backlog", "lag_ms", "forwarded", "unconfirmed", "nacked"),
    *("dropped_max_hops", "dropped_seen", "dropped_invalid", "bindings", "degraded"),
    *("upstream_cluster_name", "upstream_vhost"),
)


@required(str, "node", *ALIKE, "timestamp", "changed_at")
@required(int | None, "backlog", "lag_ms")
@optional(str, "exchange", "upstream_exchange", "queue", "upstream_queue", "consumer_tag", "error", "state", "reason")
@optional(str, "since", "next_attempt_at", "policy", "upstream_cluster_name", "upstream_vhost", "local_connection")
@optional(int, "retries", "reconnects", "forwarded", "unconfirmed", "nacked", "bindings")
@optional(int, "dropped_max_hops", "dropped_seen", "dropped_invalid")
class LinkView(TypedDict):
    """A federation link; fields that do not apply are left out."""

    degraded: bool
    local_channel: NotRequired[dict[str, object]]
    message_stats: NotRequired[Counted]


def link_view(stats: RequestStats, row: Row, detailed: bool = False) -> LinkView:
    """Return the fields of a link from the service's row; `detailed` adds its rates even while it is down."""
    kind = str(row["type"])
    item: Any = {
        "node": row["node"],
        kind: row["name"],
        f"upstream_{kind}": row["upstream_name"],
        **{name: row[name] for name in ALIKE},
        "timestamp": clock_time(row["changed_s"]),
        "changed_at": point_in_time(row["changed_s"]),
        **{name: row[name] for name in MORE},
    }
    if kind == "queue":
        item["consumer_tag"] = row["consumer_tag"]
    if row["error"]:
        item["error"] = row["error"]
    if row["next_attempt_s"] is not None:
        item["next_attempt_at"] = point_in_time(row["next_attempt_s"])
    if row["state"]:
        item |= {"state": row["state"], "reason": row["reason"], "since": point_in_time(row["since_s"])}
    if row["status"] == "running":
        item["local_connection"] = row["local_connection"]
        channel = item["local_channel"] = local_channel(row)
        if stats.enabled:
            channel["message_stats"] = stats.details("link", link_key(row), link_counters(row))
    if detailed:
        item["message_stats"] = stats.details("link", link_key(row), link_counters(row))
    return cast(LinkView, item)


def local_channel(row: Row) -> dict[str, object]:
    """Return the channel with which the link publishes here, as RabbitMQ shows it."""
    name = row["local_connection"]
    return {
        "acks_uncommitted": 0,
        "confirm": True,
        "connection_details": {"name": name, "peer_host": "undefined", "peer_port": "undefined"},
        "consumer_count": 0,
        "messages_unacknowledged": 0,
        "messages_uncommitted": 0,
        "messages_unconfirmed": row["unconfirmed"],
        "name": f"{name} (1)",
        "node": row["node"],
        "number": 1,
        "prefetch_count": 0,
        "state": "running",
        "transactional": False,
        "user": "none",
        "user_who_performed_action": "none",
        "vhost": row["vhost"],
    }


def clock_time(timestamp_s: object) -> str:
    """Return the local time in RabbitMQ's form, with no leading zero in the hour."""
    at = datetime.fromtimestamp(seconds(timestamp_s))
    return f"{at:%Y-%m-%d} {at.hour}:{at:%M:%S}"


def point_in_time(timestamp_s: object) -> str:
    return datetime.fromtimestamp(seconds(timestamp_s), UTC).isoformat(timespec="milliseconds")


def seconds(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


UP = ("running", "starting")
LINKS = 1000  # in one answer of the topology


@route("GET", MONITOR, "/federation-links", "/federation-links/{vhost}")
def list_links(request: Request) -> Listing[LinkView]:
    """List the federation links in the virtual hosts that the user sees."""
    return listing(request, rows(request))


@route("GET", MONITOR, "/federation-links/state/down", "/federation-links/{vhost}/state/down")
def list_down(request: Request) -> Listing[LinkView]:
    """List the federation links that are neither running nor starting."""
    return listing(request, (row for row in rows(request) if row["status"] not in UP))


@route("GET", MONITOR, "/warren/federation/links/{vhost}/{id}")
async def get_link(request: Request) -> Response[LinkView]:
    """Return a link with its counters, and with samples of its rates if a range is asked for."""
    async for row in request.in_slices(rows(request)):
        if row["id"] == request.path["id"]:
            return ok(link_view(RequestStats(request), row, detailed=True))
    raise missing()


@route("GET", MONITOR, "/federation-links/{vhost}/{list}")
def no_list(request: Request) -> Response[None]:
    """Return 400 for a path that is not a list of links, as RabbitMQ does."""
    return Response(400)


@route("DELETE", POLICIES, "/federation-links/vhost/{vhost}/{id}/{node}/restart")
async def restart(request: Request) -> Response[None]:
    """Restart a link; its messages on the upstream are kept."""
    id = request.path["id"]
    known = any([row["id"] == id async for row in request.in_slices(rows(request))])
    if not known or request.path["node"] != request.node.name or not existing(links_of(request.host)).restart(id):
        raise missing()
    return done()


def rows(request: Request) -> Iterator[Row]:
    """Return the rows of the request's virtual hosts, in no order. Raises HTTPError (404) without the service."""
    links = existing(links_of(request.host)).each_status()
    names = {vhost.name for vhost in request.vhosts()}
    return (row for row in links if row["vhost"] in names)


def place(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("vhost", "type", "name", "upstream", "upstream_name"))


def listing(request: Request, links: Iterator[Row]) -> Listing[LinkView]:
    """Return a list whose pages are filtered by the names of the object and of the upstream, in this order."""
    stats = RequestStats(request)
    return Listing(links, lambda row: link_view(stats, row), lambda row: f"{row['name']} {row['upstream']}", place)


class TopologyAnswer(TopologyView):
    """The topology as this node knows it; `truncated` if there are more links."""

    node: str
    truncated: bool


@route("GET", MONITOR, "/warren/federation/topology", "/warren/federation/topology/{vhost}")
async def get_topology(request: Request) -> Response[TopologyAnswer]:
    """Return brokers and links as this broker knows them: its own links, and links of brokers that federate from it."""
    stats, topology = RequestStats(request), Topology(request.node.cluster_name)
    own: list[Row] = []
    if links_of(request.host) is not None:
        own = (await request.wait(sorted_in_slices(rows(request), place)))[:LINKS]
    async for parameter in request.in_slices(request.node.parameters.unsorted()):
        if parameter.component == UPSTREAM:
            topology.add_address(parameter)
    topology.name_upstreams(own)
    async for row in request.in_slices(own):
        topology.add_own_link(stats, row)
    vhosts = {vhost.name: vhost for vhost in request.visible_vhosts()}
    for vhost in vhosts.values():
        async for exchange in request.in_slices(list(vhost.exchanges.values())):
            if exchange.type_name == INTERNAL and len(topology.links) < LINKS:
                topology.add_downstream(exchange_link(stats, exchange))
                topology.add_paths(exchange)
    async for connection in request.in_slices(request.host.connections()):
        if connection.vhost_name in vhosts and len(topology.links) < LINKS:
            for link in queue_links(stats, connection):
                topology.add_downstream(link)
    return ok({**topology.view(), "node": request.node.name, "truncated": len(topology.links) >= LINKS})
