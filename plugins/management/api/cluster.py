"""The cluster, which is this one node: its name, what it can do, and what is done to all of it."""

from __future__ import annotations

import msgspec

from warren.broker.core.policies.parameters import CLUSTER_NAME
from warren.broker.hosting.feature_flags import DEPRECATED_FEATURES, FEATURES

from ...http.auth import ADMIN, ANY, NONE
from ...http.responses import Response, bad, done, missing, ok
from ..request import Request
from ..router import Route

ALL_FEATURES = "all"


class Name(msgspec.Struct):
    name: str


def get_name(request: Request) -> Response:
    """What the cluster is called."""
    return ok({"name": request.node.cluster_name})


def set_name(request: Request) -> Response:
    """Call it otherwise."""
    request.node.parameters.set_global(CLUSTER_NAME, request.body.name)
    return done()


def list_features(request: Request) -> Response:
    """Feature flags, all of them enabled."""
    return ok(
        [
            {
                "name": name,
                "desc": text,
                "doc_url": "",
                "state": "enabled",
                "stability": "stable",
                "require_level": "none",
                "provided_by": "rabbit",
            }
            for name, text in FEATURES.items()
        ]
    )


def enable_feature(request: Request) -> Response:
    """Enable a feature, which it is."""
    if request.path["name"] not in (*FEATURES, ALL_FEATURES):
        raise bad(f"Feature flag '{request.path['name']}' is not supported")
    return done()


def list_deprecated(request: Request) -> Response:
    """Features that RabbitMQ is to drop, or has dropped."""
    return ok(
        [
            {"name": name, "desc": "", "deprecation_phase": phase, "doc_url": url, "provided_by": provider}
            for name, phase, provider, url in DEPRECATED_FEATURES
        ]
    )


def list_used_deprecated(request: Request) -> Response:
    """Those of them that are in use: what there is here is no feature that will go."""
    return ok([])


def get_version(request: Request) -> Response:
    """The version of RabbitMQ that the broker passes for."""
    return ok(request.node.version)


def list_extensions(request: Request) -> Response:
    """What adds pages to the user interface."""
    return ok([{"javascript": "dispatcher.js"}])


def reset(request: Request) -> Response:
    """Forget the samples of the past; counters go on."""
    if request.path.get("node", request.node.name) != request.node.name:
        raise missing()
    request.state.samples.reset()
    return done()


def rebalance(request: Request) -> Response:
    """Spread queues over the nodes, of which there is one."""
    return done()


def configuration(request: Request) -> Response:
    """All keys of the configuration with their values, but for secrets."""
    return Response(200, request.host.configuration().encode(), media_type="text/plain; charset=utf-8")


ROUTES = (
    Route("GET", "/cluster-name", ANY, get_name),
    Route("PUT", "/cluster-name", ADMIN, set_name, Name),
    Route("GET", "/feature-flags", ANY, list_features),
    Route("PUT", "/feature-flags/{name}/enable", ADMIN, enable_feature),
    Route("GET", "/deprecated-features", ANY, list_deprecated),
    Route("GET", "/deprecated-features/used", ANY, list_used_deprecated),
    Route("GET", "/version", NONE, get_version),
    Route("GET", "/extensions", ANY, list_extensions),
    Route("DELETE", "/reset", ADMIN, reset),
    Route("DELETE", "/reset/{node}", ADMIN, reset),
    Route("POST", "/rebalance/queues", ADMIN, rebalance),
    Route("GET", "/config/effective", ADMIN, configuration),
)
