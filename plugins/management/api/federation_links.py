"""Routes for federation links, which return 404 without the federation service, and for the topology."""

from collections.abc import Iterator

from warren.broker.core.policies.upstream_parameters import UPSTREAM

from ...http.auth import MONITOR, POLICIES
from ...http.responses import Response, done, existing, missing, ok
from ...http.time_slices import sorted_in_slices
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route
from ..stats.federation_links import Row, links_of
from ..views.federation_topology import INTERNAL, Topology, TopologyView, exchange_link, queue_links
from ..views.link import LinkView, link_view
from ..views.stats import RequestStats

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
