"""All commands that the HTTP API can carry out, by name."""

from collections.abc import Iterable

from ...control import links
from . import access, actions, diagnostics, listing, parameters, plugins, users, vhosts
from .call import Handler

COMMANDS: dict[str, Handler] = {
    **users.COMMANDS,
    **access.COMMANDS,
    **vhosts.COMMANDS,
    **parameters.COMMANDS,
    **listing.COMMANDS,
    **actions.COMMANDS,
    **diagnostics.COMMANDS,
    **plugins.COMMANDS,
}

# The columns that a list can be asked for.
COLUMNS: dict[str, Iterable[str]] = {
    "federation_status": links.COLUMNS,
    "list_bindings": listing.BINDING,
    "list_channels": listing.CHANNEL,
    "list_connections": listing.CONNECTION,
    "list_consumers": listing.CONSUMER,
    "list_exchanges": listing.EXCHANGE,
    "list_feature_flags": listing.FEATURE,
    "list_queues": listing.QUEUE,
    "list_unresponsive_queues": listing.QUEUE,
    "list_vhosts": vhosts.VHOST,
}
