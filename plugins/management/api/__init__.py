"""What the API answers, by resource: a module each, with its rows of the table of routes in ROUTES."""

from __future__ import annotations

from ..openapi import with_documentation
from ..router import Routes
from . import (
    auth,
    bindings,
    channels,
    cluster,
    connections,
    consumers,
    definitions,
    exchanges,
    federation_links,
    global_parameters,
    health,
    limits,
    messages,
    nodes,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    topic_permissions,
    users,
    vhosts,
    warren,
)

MODULES = (
    bindings,
    channels,
    cluster,
    connections,
    consumers,
    definitions,
    exchanges,
    federation_links,
    global_parameters,
    health,
    limits,
    auth,
    messages,
    nodes,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    topic_permissions,
    users,
    vhosts,
    warren,
)


def routes() -> Routes:
    """All that there is."""
    return Routes(with_documentation([route for module in MODULES for route in module.ROUTES]))
