"""All that `warrenctl` may ask of a node, by name."""

from . import access, actions, definitions, diagnostics, evaluation, listing, node, parameters, traffic, users, vhosts
from .call import Handler

COMMANDS: dict[str, Handler] = {
    **users.COMMANDS,
    **access.COMMANDS,
    **vhosts.COMMANDS,
    **parameters.COMMANDS,
    **listing.COMMANDS,
    **traffic.COMMANDS,
    **actions.COMMANDS,
    **definitions.COMMANDS,
    **node.COMMANDS,
    **diagnostics.COMMANDS,
    **evaluation.COMMANDS,
}
