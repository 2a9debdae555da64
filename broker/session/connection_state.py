"""States of a connection, and how RabbitMQ lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .connection import Connection

HANDSHAKE, RUNNING, CLOSING, CLOSED = range(4)


def state_text(connection: Connection) -> str:
    """Return the state of a connection that is, or was, open.

    While an alarm is on, `blocking` is a connection that has not published since, and `blocked` one that has. `flow` is
    one whose publishes wait for a queue to drain.
    """
    if connection.state == CLOSED:
        return "closed"
    if connection.state == CLOSING:
        return "closing"
    if connection.node.alarms.reason:
        return "blocked" if connection.blocked else "blocking"
    return "flow" if connection.publisher_throttle.queues else "running"
