"""All that `warrenctl` may ask of a node, by name."""

from . import (
    access,
    actions,
    checks,
    definitions,
    diagnostics,
    evaluation,
    events,
    federation,
    installed,
    listing,
    log,
    node,
    parameters,
    traffic,
    users,
    vhosts,
)
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
    **checks.COMMANDS,
    **log.COMMANDS,
    **events.COMMANDS,
    **federation.COMMANDS,
    **installed.COMMANDS,
    **evaluation.COMMANDS,
}
