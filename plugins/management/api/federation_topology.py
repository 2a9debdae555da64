"""The route for the topology of federation."""

from __future__ import annotations

from warren.broker.core.policies.upstream_parameters import UPSTREAM

from ...http.auth import MONITOR
from ...http.responses import Response, ok
from ...http.slices import sorted_in_slices
from ..framework.request import Request
from ..framework.router import Route
from ..stats.federation_links import Row, links_of
from ..views.federation_topology import INTERNAL, Topology, TopologyView, exchange_link, queue_links
from ..views.stats import StatsView
from .federation_links import place, rows

LINKS = 1000  # in one answer


class TopologyAnswer(TopologyView):
    """The topology as this node knows it; `truncated` if there are more links."""

    node: str
    truncated: bool


async def get_topology(request: Request) -> Response[TopologyAnswer]:
    """Return brokers and links as this broker knows them: its own links, and those of others that federate from it."""
    stats, topology = StatsView(request), Topology(request.node.cluster_name)
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


ROUTES = (
    Route("GET", "/warren/federation/topology", MONITOR, get_topology),
    Route("GET", "/warren/federation/topology/{vhost}", MONITOR, get_topology),
)
