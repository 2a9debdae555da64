"""All commands that the HTTP API can carry out, by name."""

from collections.abc import Iterable

from ...control import links
from . import actions, diagnostics, lists, parameters, permissions, plugins, users, vhosts
from .request import Handler

COMMANDS: dict[str, Handler] = {
    **users.COMMANDS,
    **permissions.COMMANDS,
    **vhosts.COMMANDS,
    **parameters.COMMANDS,
    **lists.COMMANDS,
    **actions.COMMANDS,
    **diagnostics.COMMANDS,
    **plugins.COMMANDS,
}

# The columns that a list can be asked for.
COLUMNS: dict[str, Iterable[str]] = {
    "federation_status": links.COLUMNS,
    "list_bindings": lists.BINDING,
    "list_channels": lists.CHANNEL,
    "list_connections": lists.CONNECTION,
    "list_consumers": lists.CONSUMER,
    "list_exchanges": lists.EXCHANGE,
    "list_feature_flags": lists.FEATURE,
    "list_queues": lists.QUEUE,
    "list_unresponsive_queues": lists.QUEUE,
    "list_vhosts": vhosts.VHOST,
}
