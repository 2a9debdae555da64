"""All commands that the HTTP API can carry out, by name."""

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
