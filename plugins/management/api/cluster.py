"""Routes for the cluster, which is this one node: name, feature flags, version, configuration, memory."""

import msgspec

from warren.broker.core.policies.parameters import CLUSTER_NAME
from warren.broker.operator.feature_flags import DEPRECATED_FEATURES, FEATURES

from ...http.auth import ADMIN, ANY, MONITOR, NONE
from ...http.responses import Response, bad, done, ok
from ..framework.pagination import Listing
from ..framework.request import Request
from ..framework.router import route
from ..views.node import NodeView, memory_by_use, memory_view, node_view

ALL_FEATURES = "all"
# The fields that all feature flags have.
ENABLED = {"doc_url": "", "state": "enabled", "stability": "stable", "require_level": "none", "provided_by": "rabbit"}


class Name(msgspec.Struct):
    name: str


@route("GET", ANY, "/cluster-name")
def get_name(request: Request) -> Response[Name]:
    """Return the name of the cluster."""
    return ok(Name(request.node.cluster_name))


@route("PUT", ADMIN, "/cluster-name")
def set_name(request: Request, body: Name) -> Response[None]:
    """Set the name of the cluster."""
    request.node.parameters.set_global(CLUSTER_NAME, body.name)
    return done()


@route("GET", ANY, "/feature-flags")
def list_features(request: Request) -> Response[list[dict[str, str]]]:
    """List the feature flags, all of them enabled."""
    return ok([{"name": name, "desc": text, **ENABLED} for name, text in FEATURES.items()])


@route("PUT", ADMIN, "/feature-flags/{name}/enable")
def enable_feature(request: Request) -> Response[None]:
    """Enable a feature flag; all are enabled already."""
    if request.path["name"] not in (*FEATURES, ALL_FEATURES):
        raise bad(f"Feature flag '{request.path['name']}' is not supported")
    return done()


@route("GET", ANY, "/deprecated-features")
def list_deprecated(request: Request) -> Response[list[dict[str, str]]]:
    """List the features that RabbitMQ deprecates or has removed."""
    features = [
        {"name": name, "desc": "", "deprecation_phase": phase, "doc_url": url, "provided_by": provider}
        for name, phase, provider, url in DEPRECATED_FEATURES
    ]
    return ok(features)


@route("GET", ANY, "/deprecated-features/used")
def list_used_deprecated(request: Request) -> Response[list[dict[str, str]]]:
    """Return an empty list: this broker uses no deprecated feature."""
    return ok([])


@route("GET", NONE, "/version")
def get_version(request: Request) -> Response[str]:
    """Return the version of RabbitMQ that the broker is compatible with."""
    return ok(request.node.version)


@route("GET", ANY, "/extensions")
def list_extensions(request: Request) -> Response[list[dict[str, str]]]:
    """List the extensions of the user interface."""
    return ok([{"javascript": "dispatcher.js"}])


@route("DELETE", ADMIN, "/reset", "/reset/{node}")
def reset(request: Request) -> Response[None]:
    """Delete the samples of the past; counters stay."""
    request.check_node()
    request.state.samples.reset()
    return done()


@route("POST", ADMIN, "/rebalance/queues")
def rebalance(request: Request) -> Response[None]:
    """Do nothing: there are no other nodes to move queues to."""
    return done()


@route("GET", ADMIN, "/config/effective")
def configuration(request: Request) -> Response[bytes]:
    """Return all configuration keys with their values, without secrets."""
    return Response(200, request.host.configuration().encode(), media_type="text/plain; charset=utf-8")


# The node


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
