"""Ends the consumers of those who have lost the right to read their queues, as soon as they have (spec/core.md 9.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..core.metadata.records import Change, StoredPermission
from ..core.vhost.observer import Observer
from ..session.connection import Connection
from ..session.limits import revoke


class Revocations(Observer):
    """`connections` gives those that are open."""

    def __init__(self, connections: Callable[[], Iterable[Connection]]) -> None:
        self._connections = connections

    def configured(self, change: Change) -> None:
        record = change.record
        if isinstance(record, StoredPermission):
            for connection in list(self._connections()):
                user, vhost = connection.user, connection.vhost
                if user is not None and vhost is not None and (user.account, vhost.name) == (record.user, record.vhost):
                    revoke(connection)
                    connection.node.pump()
