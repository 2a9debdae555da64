"""Limits on the connections and channels of a node, a virtual host and a user."""

from ..amqp.errors import NotAllowed
from ..core.vhost.vhost import VHost
from .channel_host import ChannelHost

CHANNEL_OPEN = (20, 10)


def admit(connection: ChannelHost, name: str) -> VHost:
    """Admit a connection to a virtual host, and return the virtual host. Raises NotAllowed (530).

    The checks are in RabbitMQ's order.
    """
    node, user = connection.node, connection.user
    assert user is not None
    limit = connection.settings.connection_max
    if limit is not None and node.open_connections >= limit:
        raise NotAllowed(f"connection refused: node connection limit ({limit}) is reached")
    limit = connection.settings.descriptor_connections
    if limit is not None and node.open_connections >= limit:
        raise NotAllowed(f"connection refused: node connection limit ({limit}) is reached, by its limit of open files")
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise NotAllowed(f"vhost {name} not found")
    refused = f"access to vhost '{name}' refused for user '{user.name}'"
    limit = node.limits.vhost_connections(name)
    if limit is not None and node.connection_counts.in_vhost(name) >= limit:
        raise NotAllowed(f"{refused}: connection limit ({limit}) is reached")
    limit = node.limits.user_connections(user.account)
    if limit is not None and node.connection_counts.of_user(user.account) >= limit:
        raise NotAllowed(f"connection refused for user '{user.name}': user connection limit ({limit}) is reached")
    if name not in user.permissions:
        raise NotAllowed(refused)
    return vhost


def admit_channel(connection: ChannelHost) -> None:
    """Check that the user and the node may have one more channel; raises NotAllowed (530)."""
    node, user = connection.node, connection.user
    assert user is not None
    limit = node.limits.user_channels(user.account)
    if limit is not None and node.connection_counts.channels_of_user(user.account) >= limit:
        raise NotAllowed(
            f"number of channels opened for user '{user.name}' has reached the maximum allowed user limit of {limit}",
            *CHANNEL_OPEN,
        )
    limit = connection.settings.channel_max_per_node
    if limit is not None and node.connection_counts.channels >= limit:
        raise NotAllowed(
            f"number of channels opened on node '{node.name}' has reached the maximum allowed limit of {limit}",
            *CHANNEL_OPEN,
        )
