"""Who may open one more connection or channel, and who may go on with what is open (spec/core.md 1.6, 1.8, 4, 21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..amqp.errors import NotAllowed
from ..core.vhost.vhost import VHost

if TYPE_CHECKING:
    from .connection import Connection

CHANNEL_OPEN = (20, 10)


def admit(connection: Connection, name: str) -> VHost:
    """The virtual host that the client asks for; raises NotAllowed (530), in RabbitMQ's order of checks."""
    node, user = connection.node, connection.user
    assert user is not None
    limit = connection.settings.connection_max
    if limit is not None and node.open_connections >= limit:
        raise NotAllowed(f"connection refused: node connection limit ({limit}) is reached")
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise NotAllowed(f"vhost {name} not found")
    refused = f"access to vhost '{name}' refused for user '{user.name}'"
    limit = node.limits.vhost_connections(name)
    if limit is not None and node.census.in_vhost(name) >= limit:
        raise NotAllowed(f"{refused}: connection limit ({limit}) is reached")
    limit = node.limits.user_connections(user.account)
    if limit is not None and node.census.of_user(user.account) >= limit:
        raise NotAllowed(f"connection refused for user '{user.name}': user connection limit ({limit}) is reached")
    if name not in user.permissions:
        raise NotAllowed(refused)
    return vhost


def admit_channel(connection: Connection) -> None:
    """Room for one more channel of this user, and of this node; raises NotAllowed (530)."""
    node, user = connection.node, connection.user
    assert user is not None
    limit = node.limits.user_channels(user.account)
    if limit is not None and node.census.channels_of_user(user.account) >= limit:
        raise NotAllowed(
            f"number of channels opened for user '{user.name}' has reached the maximum allowed user limit of {limit}",
            *CHANNEL_OPEN,
        )
    limit = connection.settings.channel_max_per_node
    if limit is not None and node.census.channels >= limit:
        raise NotAllowed(
            f"number of channels opened on node '{node.name}' has reached the maximum allowed limit of {limit}",
            *CHANNEL_OPEN,
        )


def renew(connection: Connection) -> None:
    """The client has a new secret, of which the internal users know nothing: what it may do is looked at again.

    Raises NotAllowed (530) where the user is gone or may not be in this virtual host any more.
    """
    user, vhost = connection.user, connection.vhost
    assert user is not None and vhost is not None
    if user.account and connection.node.users.get(user.account) is not user:
        raise NotAllowed("New secret was refused by one of the backends")
    if vhost.name not in user.permissions:
        raise NotAllowed("Secret update failed")
    vhost.changed()
    revoke(connection)


def revoke(connection: Connection) -> None:
    """End the consumers that the user has no right to any more (spec/core.md 9.4): the client is told."""
    for channel in connection.channels.values():
        for subscription in list(channel.consumers.values()):
            queue = subscription.queue
            if queue is not channel.reply_queue and not channel.may("read", queue.name):
                queue.remove_consumer(subscription)
                subscription.cancelled()
                channel.vhost.consumers_changed(queue)
