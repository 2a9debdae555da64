"""Routes for the node; RabbitMQ has clusters of several."""

from ...http.auth import MONITOR
from ...http.responses import Response, ok
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route
from ..views.node import NodeView, memory_by_use, memory_view, node_view


@route("GET", MONITOR, "/nodes")
def list_nodes(request: Request) -> Listing[NodeView]:
    """List the nodes of the cluster."""
    return Listing([request.host], lambda host: node_view(request))


@route("GET", MONITOR, "/nodes/{node}")
def get_node(request: Request) -> Response[NodeView]:
    """Return one node; with `memory=true` also its memory by use."""
    request.check_node()
    return ok(node_view(request))


@route("GET", MONITOR, "/nodes/{node}/memory")
def get_memory(request: Request) -> Response[dict[str, dict[str, object]]]:
    """Return the memory of a node by use, in bytes."""
    request.check_node()
    return ok({"memory": memory_view(request)})


@route("GET", MONITOR, "/nodes/{node}/memory/relative")
def get_relative_memory(request: Request) -> Response[dict[str, dict[str, int]]]:
    """Return the memory of a node by use, in percent."""
    request.check_node()
    used = memory_by_use(request)
    total = max(sum(used.values()), 1)
    return ok({"memory": {"total": 100, **{name: -(-100 * each // total) for name, each in used.items()}}})
