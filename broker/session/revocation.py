"""Revocation: checks the rights of open connections again, and cancels consumers that have lost the right to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..amqp.errors import NotAllowed

if TYPE_CHECKING:
    from .connection import Connection


def renew_rights(connection: Connection) -> None:
    """Check the rights of a client that has sent a new secret. The secret itself is ignored: users are internal.

    Raises NotAllowed (530) if the user is deleted or has no permissions in the virtual host any more.
    """
    user, vhost = connection.user, connection.vhost
    assert user is not None and vhost is not None
    if user.account and connection.node.users.get(user.account) is not user:
        raise NotAllowed("New secret was refused by one of the backends")
    if vhost.name not in user.permissions:
        raise NotAllowed("Secret update failed")
    vhost.clear_route_cache()
    revoke_consumers(connection)


def revoke_consumers(connection: Connection) -> None:
    """Cancel consumers whose user may no longer read their queue. The client gets basic.cancel."""
    for channel in connection.channels.values():
        for consumer in list(channel.consumers.values()):
            queue = consumer.queue
            if queue is not channel.reply_queue and not channel.has_permission("read", queue.name):
                queue.remove_consumer(consumer)
                consumer.cancelled()
                channel.vhost.consumers_changed(queue)
