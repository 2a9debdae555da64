"""The node, of which there is one; RabbitMQ has clusters of them."""

from __future__ import annotations

from warren.broker.plugin import Host

from ...http.auth import MONITOR
from ...http.responses import Response, missing, ok
from ..pagination import Listing
from ..request import Request
from ..router import Route
from ..views.node import memory_by_use, memory_view, node_view


def list_nodes(request: Request) -> Listing[Host]:
    """All nodes of the cluster."""
    return Listing([request.host], lambda host: node_view(request))


def get_node(request: Request) -> Response:
    """One node; with `memory=true` what its memory is used for."""
    return ok(node_view(known(request)))


def get_memory(request: Request) -> Response:
    """What the memory of a node is used for, in octets."""
    return ok({"memory": memory_view(known(request))})


def get_relative_memory(request: Request) -> Response:
    """What the memory of a node is used for, in percent."""
    used = memory_by_use(known(request))
    total = max(sum(used.values()), 1)
    return ok({"memory": {"total": 100, **{name: -(-100 * each // total) for name, each in used.items()}}})


def known(request: Request) -> Request:
    """Raises Refusal (404) for another node than this one."""
    if request.path["node"] != request.node.name:
        raise missing()
    return request


ROUTES = (
    Route("GET", "/nodes", MONITOR, list_nodes),
    Route("GET", "/nodes/{node}", MONITOR, get_node),
    Route("GET", "/nodes/{node}/memory", MONITOR, get_memory),
    Route("GET", "/nodes/{node}/memory/relative", MONITOR, get_relative_memory),
)
