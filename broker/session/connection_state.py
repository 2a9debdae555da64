"""States of a connection, and RabbitMQ's names for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .connection import Connection

HANDSHAKE: Final = 0
RUNNING: Final = 1
CLOSING: Final = 2
CLOSED: Final = 3


def state_text(connection: Connection) -> str:
    """Return RabbitMQ's name for the state of a connection after its handshake.

    During an alarm a connection is `blocked` once it has published, and `blocking` before. `flow` means that it is not
    read until a queue drains.
    """
    if connection.state == CLOSED:
        return "closed"
    if connection.state == CLOSING:
        return "closing"
    if connection.node.alarms.reason:
        return "blocked" if connection.blocked else "blocking"
    return "flow" if connection.publisher_throttle.queues else "running"
