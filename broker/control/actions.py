"""What operators do to queues and connections."""

from __future__ import annotations

import asyncio

from ..amqp.errors import ConnectionForced
from ..core.queues.queue import Queue
from ..session.connection import Connection
from .answers import DATA, UNAVAILABLE, USAGE, Answer, Refused
from .call import Call, Daemon, Handler


def queue_of(call: Call) -> Queue | None:
    """None too where there is no such virtual host, as in RabbitMQ."""
    vhost = call.node.vhosts.get(call.vhost_name)
    return vhost.queues.get(call.arguments[0]) if vhost is not None else None


def purge_queue(call: Call) -> None:
    queue = queue_of(call)
    if queue is None:
        raise Refused(DATA, "Object (queue, stream, exchange, etc) was not found", bare=True)
    queue.purge()


def delete_queue(call: Call) -> str:
    queue = queue_of(call)
    if queue is None:
        raise Refused(USAGE, "Queue not found")
    vhost = call.vhost()
    if call.flag("if-empty") and queue.ready:
        raise Refused(UNAVAILABLE, f"Queue '{queue.name}' in vhost '{vhost.name}' is not empty")
    if call.flag("if-unused") and len(queue.consumers):
        raise Refused(UNAVAILABLE, f"Queue '{queue.name}' in vhost '{vhost.name}' is in use")
    ready = vhost.delete_queue(queue)
    return f"Queue was successfully deleted with {ready} ready messages"


def close_connection(call: Call) -> None:
    """Nobody of that pid is fine, as in RabbitMQ."""
    pid, reason = call.arguments
    call.host.close_connections(lambda one: pid in (str(one), one.name), reason)


def close_all_user_connections(call: Call) -> None:
    user, reason = call.arguments
    found = [one for one in call.daemon.connections() if one.user is not None and one.user.account == user]
    close(call.daemon, found, reason)


def close_all_connections(call: Call) -> Answer | asyncio.Future[Answer]:
    (reason,) = call.arguments
    limit, delay_ms = call.whole("limit", 0), call.whole("per-connection-delay", 0)
    found = [
        one
        for one in call.daemon.connections()
        if call.flag("global") or one.vhost is not None and one.vhost.name == call.vhost_name
    ]
    found = found[: limit or None]
    text = f"Closed {len(found)} connections"
    if not delay_ms:
        close(call.daemon, found, reason)
        return text
    done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    close_next(call.daemon, found, reason, delay_ms, text, done)
    return done


def close(daemon: Daemon, connections: list[Connection], reason: str) -> None:
    for connection in connections:
        connection.close(ConnectionForced(reason))


def close_next(
    daemon: Daemon,
    left: list[Connection],
    reason: str,
    delay_ms: int,
    text: str,
    done: asyncio.Future[Answer],
) -> None:
    """One of them now, the next after the delay."""
    if done.done():
        return
    if not left:
        done.set_result(text)
        return
    with daemon.acting():
        close(daemon, left[:1], reason)
    asyncio.get_running_loop().call_later(delay_ms / 1000, close_next, daemon, left[1:], reason, delay_ms, text, done)


COMMANDS: dict[str, Handler] = {
    "purge_queue": purge_queue,
    "delete_queue": delete_queue,
    "close_connection": close_connection,
    "close_all_connections": close_all_connections,
    "close_all_user_connections": close_all_user_connections,
}
