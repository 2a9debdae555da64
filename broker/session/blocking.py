"""What an alarm does to a connection: it runs on until it publishes, and is then served no further (spec/core.md 23).

The turning point is the content header. A message without a body is whole by then and is taken; any other waits, with
all that came behind it, until every alarm is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire import encode
from ..wire.frames import Publishes
from .stage import CLOSED, CLOSING

if TYPE_CHECKING:
    from .connection import Connection

BODY_SIZE = slice(11, 19)  # of a header frame: the octets that tell the size of the body


def admitted(connection: Connection, publishes: Publishes) -> Publishes | None:
    """While an alarm is on: block the connection; the part of these publishes that is still taken, if any."""
    block(connection)
    contents = publishes.contents
    if not contents or any(contents[0][BODY_SIZE]):
        connection.deferred = publishes
        return None
    if len(contents) > 1:
        connection.deferred = Publishes(publishes.channel, publishes.method, contents[1:], publishes.alike)
    return Publishes(publishes.channel, publishes.method, contents[:1], True)


def block(connection: Connection) -> None:
    """Nothing more is served, and the client is told why if it asked to be."""
    connection.blocked = connection.interrupted = True
    if "connection.blocked" in connection.capabilities:
        reason = encode.short_string(connection.node.alarms.reason)
        connection.send(encode.method(0, encode.CONNECTION_BLOCKED, reason))


def unblock(connection: Connection) -> None:
    """The last alarm is over."""
    if connection.blocked:
        connection.blocked = False
        notice = b""
        if "connection.blocked" in connection.capabilities:
            notice = encode.method(0, encode.CONNECTION_UNBLOCKED)
        connection.send(notice)  # which has us called again


def state_text(connection: Connection) -> str:
    """Of one that is open, or was: `blocking` is who would be blocked, `flow` who waits for its queues to drain."""
    if connection.state == CLOSED:
        return "closed"
    if connection.state == CLOSING:
        return "closing"
    if connection.node.alarms.reason:
        return "blocked" if connection.blocked else "blocking"
    return "flow" if connection.holding.queues else "running"
