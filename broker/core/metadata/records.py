"""What the broker was told to have, as plain values: what metadata keeps, and a restart brings back."""

from __future__ import annotations


class StoredVHost:
    """`default_queue_type` is empty where none was chosen; a `protected` one cannot be deleted."""

    __slots__ = ("name", "description", "tags", "default_queue_type", "protected")

    def __init__(
        self,
        name: str,
        description: str = "",
        tags: tuple[str, ...] = (),
        default_queue_type: str = "",
        protected: bool = False,
    ) -> None:
        self.name = name
        self.description = description
        self.tags = tags
        self.default_queue_type = default_queue_type
        self.protected = protected


class StoredUser:
    """`password_hash` is as its `hashing_algorithm` writes it, empty for a user who cannot log in with a password.

    `limits` are `max-connections` and `max-channels`, where they are set.
    """

    __slots__ = ("name", "password_hash", "hashing_algorithm", "tags", "limits")

    def __init__(
        self,
        name: str,
        password_hash: bytes,
        tags: tuple[str, ...],
        hashing_algorithm: str = "rabbit_password_hashing_sha256",
        limits: dict[str, int] | None = None,
    ) -> None:
        self.name = name
        self.password_hash = password_hash
        self.tags = tags
        self.hashing_algorithm = hashing_algorithm
        self.limits = limits or {}


class StoredPermission:
    __slots__ = ("user", "vhost", "configure", "write", "read")

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.user = user
        self.vhost = vhost
        self.configure = configure
        self.write = write
        self.read = read


class StoredTopicPermission:
    """On the routing keys of one topic exchange (spec/core.md 20.2)."""

    __slots__ = ("user", "vhost", "exchange", "write", "read")

    def __init__(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self.user = user
        self.vhost = vhost
        self.exchange = exchange
        self.write = write
        self.read = read


class StoredParameter:
    """A runtime parameter; policies and limits are some. `value` is JSON, `user` the name of the user who set it, empty
    where that was nobody but the node."""

    __slots__ = ("vhost", "component", "name", "value", "user")

    def __init__(self, vhost: str, component: str, name: str, value: str, user: str = "") -> None:
        self.vhost = vhost
        self.component = component
        self.name = name
        self.value = value
        self.user = user


class StoredGlobalParameter:
    """A parameter of the whole broker. `value` is JSON."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self.value = value


class StoredExchange:
    """`arguments` are the octets of the table.

    `number` is what the journal knows by what the exchange keeps, as for a queue; 0 where it keeps nothing.
    """

    __slots__ = ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments", "number")

    def __init__(
        self,
        vhost: str,
        name: str,
        type: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: bytes,
        number: int = 0,
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.type = type
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.number = number


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


Record = (
    StoredVHost
    | StoredUser
    | StoredPermission
    | StoredTopicPermission
    | StoredParameter
    | StoredGlobalParameter
    | StoredExchange
    | StoredQueue
    | StoredBinding
)


class Change:
    """`put` makes the record or changes it; otherwise it goes, and may be gone already."""

    __slots__ = ("put", "record")

    def __init__(self, put: bool, record: Record) -> None:
        self.put = put
        self.record = record


class Definitions:
    """All of it. `next_queue` is a number that nothing in the journal has ever had."""

    __slots__ = (
        "vhosts",
        "users",
        "permissions",
        "topic_permissions",
        "parameters",
        "global_parameters",
        "exchanges",
        "queues",
        "bindings",
        "next_queue",
    )

    def __init__(self) -> None:
        self.vhosts: list[StoredVHost] = []
        self.users: list[StoredUser] = []
        self.permissions: list[StoredPermission] = []
        self.topic_permissions: list[StoredTopicPermission] = []
        self.parameters: list[StoredParameter] = []
        self.global_parameters: list[StoredGlobalParameter] = []
        self.exchanges: list[StoredExchange] = []
        self.queues: list[StoredQueue] = []
        self.bindings: list[StoredBinding] = []
        self.next_queue = 1

    @property
    def numbers(self) -> set[int]:
        """What the journal may know of."""
        numbers = {queue.number for queue in self.queues} | {exchange.number for exchange in self.exchanges}
        return numbers - {0}

    @property
    def empty(self) -> bool:
        """Nobody has ever used them: a broker that was told to drop its last vhost still has users."""
        return not self.vhosts and not self.users

    def changes(self) -> list[Change]:
        """What makes them out of nothing."""
        records: list[Record] = [*self.vhosts, *self.users, *self.permissions, *self.topic_permissions]
        records += [*self.parameters, *self.global_parameters]
        records += [*self.exchanges, *self.queues, *self.bindings]
        return [Change(True, record) for record in records]


def first_definitions(
    vhost: str, users: list[StoredUser], permission: tuple[str, str, str] = (".*", ".*", ".*")
) -> Definitions:
    """What a broker begins with: one vhost, in which these users may do everything (spec/core.md 20.3), or only what
    they may configure, write and read."""
    first = Definitions()
    first.vhosts.append(StoredVHost(vhost, "Default virtual host"))
    for user in users:
        first.users.append(user)
        first.permissions.append(StoredPermission(user.name, vhost, *permission))
    return first
