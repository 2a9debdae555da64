"""The routes of the API: a module for each resource, with its table ROUTES."""

from importlib import import_module

from ..framework.openapi import with_documentation
from ..framework.router import Routes

MODULES = (
    *("bindings", "channels", "cluster", "connections", "consumers", "definitions", "exchanges", "federation_links"),
    *("health", "limits", "auth", "messages", "nodes", "overview", "parameters", "permissions", "policies", "previews"),
    *("queue_messages", "queues", "reports", "trace", "users", "vhosts", "warren"),
)


def routes() -> Routes:
    """Return all routes."""
    modules = [import_module(f"{__name__}.{name}") for name in MODULES]
    return Routes(with_documentation([route for module in modules for route in module.ROUTES]))
