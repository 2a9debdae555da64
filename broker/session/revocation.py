"""Revocation: checks the rights of open connections again, and cancels consumers that have lost the right to read."""

from collections.abc import Callable, Iterable

from ..amqp.errors import NotAllowed
from ..core.jobs.scheduler import TURN_COST, Job, do_at_once
from .channel import Channel
from .channel_host import RUNNING, ChannelHost

CONSUMERS = 100  # whose right is checked in one step
CONSUMER_COST = 3  # of checking it (`jobs.scheduler`)


def renew_rights(connection: ChannelHost, channels: Iterable[Channel], done: Callable[[], None]) -> None:
    """Check the rights of a client that has sent a new secret. The secret itself is ignored: users are internal.

    `done` is called once the rights of its consumers are checked, after a job if these are very many. Raises
    NotAllowed (530) if the user is deleted or has no permissions in the virtual host any more.
    """
    user, vhost = connection.user, connection.vhost
    assert user is not None and vhost is not None
    if user.account and connection.node.users.get(user.account) is not user:
        raise NotAllowed("New secret was refused by one of the backends")
    if vhost.name not in user.permissions:
        raise NotAllowed("Secret update failed")
    vhost.clear_route_cache()
    steps = revoke_consumers(channels)
    more, spent = do_at_once(steps, TURN_COST - connection.spent)
    connection.spent += spent
    if more:
        connection.suspend()
        name = f"rights of connection {connection.name}"
        connection.node.scheduler.start(name, finish(connection, steps, done), connection.job_failed)
    else:
        done()


def finish(connection: ChannelHost, steps: Job, done: Callable[[], None]) -> Job:
    yield from steps
    if connection.state == RUNNING:
        done()
        connection.resume()


def revoke_consumers(channels: Iterable[Channel]) -> Job:
    """Cancel consumers whose user may no longer read their queue, in steps. The client gets basic.cancel."""
    looked = 0
    for channel in list(channels):
        for consumer in list(channel.consumers.values()):
            queue = consumer.queue
            looked += 1
            if not looked % CONSUMERS:
                yield CONSUMERS * CONSUMER_COST
            if channel.consumers.get(consumer.tag) is not consumer or queue is channel.reply_queue:
                continue
            if not channel.has_permission("read", queue.name):
                queue.remove_consumer(consumer)
                consumer.cancelled()
                channel.vhost.consumers_changed(queue)
    yield looked % CONSUMERS * CONSUMER_COST
