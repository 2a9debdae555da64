"""The routes of the API: a module for each resource."""

from importlib import import_module

from ..framework.openapi import with_documentation
from ..framework.router import ROUTES, Routes

MODULES = (
    *("bindings", "channels", "cluster", "connections", "definitions", "exchanges", "federation_links"),
    *("health", "limits", "auth", "messages", "overview", "parameters", "permissions", "policies", "previews"),
    *("queue_messages", "queues", "reports", "trace", "users", "vhosts", "warren"),
)


def routes() -> Routes:
    """Return all routes."""
    for name in MODULES:
        import_module(f"{__name__}.{name}")
    return Routes(with_documentation(ROUTES))
