"""The routes of the API: a module for each resource, with its table ROUTES."""

from __future__ import annotations

from ..framework.openapi import with_documentation
from ..framework.router import Routes
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
    federation_topology,
    global_parameters,
    health,
    limits,
    messages,
    nodes,
    overview,
    parameters,
    permissions,
    policies,
    previews,
    queue_messages,
    queues,
    reports,
    topic_permissions,
    trace,
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
    federation_topology,
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
    previews,
    queue_messages,
    queues,
    reports,
    topic_permissions,
    trace,
    users,
    vhosts,
    warren,
)


def routes() -> Routes:
    """Return all routes."""
    return Routes(with_documentation([route for module in MODULES for route in module.ROUTES]))
