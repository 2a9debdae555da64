"""What the broker was told to have, as plain values: what metadata keeps, and a restart brings back."""

from __future__ import annotations


class StoredVHost:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class StoredUser:
    __slots__ = ("name", "password_hash", "tags")

    def __init__(self, name: str, password_hash: bytes, tags: tuple[str, ...]) -> None:
        self.name = name
        self.password_hash = password_hash
        self.tags = tags


class StoredPermission:
    __slots__ = ("user", "vhost", "configure", "write", "read")

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.user = user
        self.vhost = vhost
        self.configure = configure
        self.write = write
        self.read = read


class StoredExchange:
    """`arguments` are the octets of the table."""

    __slots__ = ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments")

    def __init__(
        self, vhost: str, name: str, type: str, durable: bool, auto_delete: bool, internal: bool, arguments: bytes
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.type = type
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments


class StoredQueue:
    """`number` is what the journal knows the queue by; it is never given again."""

    __slots__ = ("vhost", "name", "number", "auto_delete", "arguments")

    def __init__(self, vhost: str, name: str, number: int, auto_delete: bool, arguments: bytes) -> None:
        self.vhost = vhost
        self.name = name
        self.number = number
        self.auto_delete = auto_delete
        self.arguments = arguments


class StoredBinding:
    """`kind` is that of the destination, queue or exchange."""

    __slots__ = ("vhost", "source", "kind", "destination", "routing_key", "arguments")

    def __init__(
        self, vhost: str, source: str, kind: str, destination: str, routing_key: str, arguments: bytes
    ) -> None:
        self.vhost = vhost
        self.source = source
        self.kind = kind
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments


Record = StoredVHost | StoredUser | StoredPermission | StoredExchange | StoredQueue | StoredBinding


class Change:
    """`put` makes the record or changes it; otherwise it goes, and may be gone already."""

    __slots__ = ("put", "record")

    def __init__(self, put: bool, record: Record) -> None:
        self.put = put
        self.record = record


class Definitions:
    """All of it. `next_queue` is a number that no durable queue has ever had."""

    __slots__ = ("vhosts", "users", "permissions", "exchanges", "queues", "bindings", "next_queue")

    def __init__(self) -> None:
        self.vhosts: list[StoredVHost] = []
        self.users: list[StoredUser] = []
        self.permissions: list[StoredPermission] = []
        self.exchanges: list[StoredExchange] = []
        self.queues: list[StoredQueue] = []
        self.bindings: list[StoredBinding] = []
        self.next_queue = 1

    @property
    def empty(self) -> bool:
        """Nobody has ever used them: a broker that was told to drop its last vhost still has users."""
        return not self.vhosts and not self.users

    def changes(self) -> list[Change]:
        """What makes them out of nothing."""
        records: list[Record] = [*self.vhosts, *self.users, *self.permissions]
        records += [*self.exchanges, *self.queues, *self.bindings]
        return [Change(True, record) for record in records]


def first_definitions(vhost: str, users: list[StoredUser]) -> Definitions:
    """What a broker begins with: one vhost, in which these users may do everything (spec/core.md 20.3)."""
    first = Definitions()
    first.vhosts.append(StoredVHost(vhost))
    for user in users:
        first.users.append(user)
        first.permissions.append(StoredPermission(user.name, vhost, ".*", ".*", ".*"))
    return first
