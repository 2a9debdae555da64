"""All commands of `warrenctl`: a file for each kind of object, with a row for each command."""

from ..command import COMMANDS, GROUPS
from . import (  # noqa: F401  each adds its commands
    backup,
    connections_and_channels,
    definitions,
    eval,
    exchanges_and_bindings,
    features,
    federation,
    listeners,
    log,
    memory_and_disk,
    node_and_cluster,
    parameters_and_policies,
    permissions,
    plugins,
    queues_and_consumers,
    status,
    tls,
    users,
    vhosts,
)

__all__ = ["COMMANDS", "GROUPS"]
