"""The enforcement of access changes on open connections."""

from collections.abc import Callable, Iterable

from ..core.jobs.scheduler import TURN_COST, Job
from ..core.metadata.records import Change, StoredPermission, StoredUser, StoredVHost
from ..core.node.node import Node
from ..core.vhost.observer import Observer
from ..session.connection import Connection
from ..session.revocation import revoke_consumers

Close = Callable[[Callable[[Connection], bool], str], int]
"""A function that closes the connections chosen by a predicate, for a reason, and returns their count."""


class AccessEnforcement(Observer):
    """The observer that closes connections of deleted users and virtual hosts.

    It also cancels consumers that have lost the right to read. `connections` returns the open connections of the node.
    """

    def __init__(self, close: Close, connections: Callable[[], Iterable[Connection]], node: Node) -> None:
        self._close = close
        self._connections = connections
        self._node = node

    def configured(self, change: Change) -> None:
        record = change.record
        if isinstance(record, StoredPermission):
            self._revoke(record.user, record.vhost)
        elif change.put:
            return
        elif isinstance(record, StoredUser):
            name = record.name
            self._close(lambda one: one.user is not None and one.user.account == name, f"user '{name}' is deleted")
        elif isinstance(record, StoredVHost):
            name = record.name
            self._close(lambda one: one.vhost is not None and one.vhost.name == name, f"vhost '{name}' is deleted")

    def _revoke(self, user_name: str, vhost_name: str) -> None:
        counts = self._node.connection_counts
        if vhost_name not in self._node.vhosts or not (counts.of_user(user_name) and counts.in_vhost(vhost_name)):
            return  # without a look at each connection, as very many permissions may change
        steps, spent = self._revocation(user_name, vhost_name), 0
        for cost in steps:
            spent += cost
            if spent > TURN_COST:
                self._node.scheduler.start(f"rights of user '{user_name}'", steps)
                break
        self._node.pump()

    def _revocation(self, user_name: str, vhost_name: str) -> Job:
        """Cancel the consumers of a user in a virtual host that have lost the right to read."""
        for connection in list(self._connections()):
            user, vhost = connection.user, connection.vhost
            yield 1
            if user is not None and vhost is not None and (user.account, vhost.name) == (user_name, vhost_name):
                yield from revoke_consumers(connection.channels.values())
