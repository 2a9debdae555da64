"""Metadata: the durable definitions of the broker (core.metadata.records), wherever they are stored."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.metadata.records import (
    Change,
    Definitions,
    Record,
    StoredBinding,
    StoredExchange,
    StoredGlobalParameter,
    StoredParameter,
    StoredPermission,
    StoredQueue,
    StoredTopicPermission,
    StoredUser,
    StoredVHost,
)

# The attribute of Definitions with the records of a class; it is also the name of their table.
LISTS: dict[type[Record], str] = {
    StoredVHost: "vhosts",
    StoredUser: "users",
    StoredPermission: "permissions",
    StoredTopicPermission: "topic_permissions",
    StoredParameter: "parameters",
    StoredGlobalParameter: "global_parameters",
    StoredExchange: "exchanges",
    StoredQueue: "queues",
    StoredBinding: "bindings",
}
# The fields that identify a record among those of its class.
KEYS: dict[type[Record], tuple[str, ...]] = {
    StoredVHost: ("name",),
    StoredUser: ("name",),
    StoredPermission: ("user", "vhost"),
    StoredTopicPermission: ("user", "vhost", "exchange"),
    StoredParameter: ("vhost", "component", "name"),
    StoredGlobalParameter: ("name",),
    StoredExchange: ("vhost", "name"),
    StoredQueue: ("number",),
    StoredBinding: StoredBinding.__slots__,
}


class Metadata:
    """The stored definitions. The loop's thread loads them, then only the workers write them.

    report  a line for each part that was found damaged or torn, and is not used
    """

    report: Sequence[str] = ()

    def load(self) -> Definitions:
        """Return all records, of each class in the order of their creation. Raises StorageFault."""
        raise NotImplementedError

    def apply(self, changes: list[Change]) -> None:
        """Write all the changes, or none; to repeat this is harmless.

        Raises OSError. After ENOSPC (disk full), EMFILE or ENOMEM (no descriptor, no memory) it may be tried again; EIO
        is final.
        """
        raise NotImplementedError

    def sync(self) -> None:
        """Make the applied changes survive a power cut, now or with the log. Raises OSError, which is final."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
