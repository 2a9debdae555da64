"""The records of the metadata store, as plain values: virtual hosts, users, parameters and the durable topology."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class StoredVHost:
    """A virtual host. `default_queue_type` is empty if none was chosen; a `protected` one cannot be deleted."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    protected: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class StoredUser:
    """A user. `password_hash` is empty if no password lets the user in.

    `limits` has `max-connections` and `max-channels`, if they are set.
    """

    name: str
    password_hash: bytes
    tags: tuple[str, ...]
    hashing_algorithm: str = "rabbit_password_hashing_sha256"
    limits: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class StoredPermission:
    """The permissions of a user in a virtual host: a regular expression for each kind of access."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True, slots=True, eq=False)
class StoredTopicPermission:
    """The permissions of a user on the routing keys of one topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True, slots=True, eq=False)
class StoredParameter:
    """A runtime parameter. Policies and the limits of virtual hosts are parameters too.

    `value` is JSON. `user` is the name of the user who set it, or empty if the node did.
    """

    vhost: str
    component: str
    name: str
    value: str
    user: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class StoredGlobalParameter:
    """A global parameter. `value` is JSON."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class StoredExchange:
    """A durable exchange. `arguments` are the bytes of the field table.

    `number` identifies messages that the exchange stores in the journal; 0 if it stores none. `user` declared it.
    """

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: bytes
    number: int = 0
    user: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class StoredQueue:
    """A durable queue. `arguments` are the bytes of the field table.

    `number` identifies the queue in the journal, and is never used again.
    """

    vhost: str
    name: str
    number: int
    auto_delete: bool
    arguments: bytes


@dataclass(frozen=True, slots=True, eq=False)
class StoredBinding:
    """A binding between durable objects. `kind` is "queue" or "exchange", of the destination."""

    vhost: str
    source: str
    kind: str
    destination: str
    routing_key: str
    arguments: bytes


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


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A change to stored definitions: `put` creates or replaces the record; otherwise it is deleted, if it exists."""

    put: bool
    record: Record


@dataclass(slots=True, eq=False)
class Definitions:
    """All stored definitions. `next_queue` is above all numbers that queues and exchanges have ever had."""

    vhosts: list[StoredVHost] = field(default_factory=list)
    users: list[StoredUser] = field(default_factory=list)
    permissions: list[StoredPermission] = field(default_factory=list)
    topic_permissions: list[StoredTopicPermission] = field(default_factory=list)
    parameters: list[StoredParameter] = field(default_factory=list)
    global_parameters: list[StoredGlobalParameter] = field(default_factory=list)
    exchanges: list[StoredExchange] = field(default_factory=list)
    queues: list[StoredQueue] = field(default_factory=list)
    bindings: list[StoredBinding] = field(default_factory=list)
    next_queue: int = 1

    @property
    def numbers(self) -> set[int]:
        """The numbers of queues and exchanges that may have messages in the journal."""
        numbers = {queue.number for queue in self.queues} | {exchange.number for exchange in self.exchanges}
        return numbers - {0}

    def names(self) -> dict[int, str]:
        """Return the names of these queues and exchanges, for the operator, by number."""
        queues = {queue.number: f"queue '{queue.name}' in vhost '{queue.vhost}'" for queue in self.queues}
        exchanges = [exchange for exchange in self.exchanges if exchange.number]
        return queues | {each.number: f"exchange '{each.name}' in vhost '{each.vhost}'" for each in exchanges}

    @property
    def empty(self) -> bool:
        """True for a broker that was never started: one whose last virtual host was deleted still has users."""
        return not self.vhosts and not self.users

    def changes(self) -> list[Change]:
        """Return the changes that create all of them, in the order of their dependencies."""
        records: list[Record] = [*self.vhosts, *self.users, *self.permissions, *self.topic_permissions]
        records += [*self.parameters, *self.global_parameters]
        records += [*self.exchanges, *self.queues, *self.bindings]
        return [Change(True, record) for record in records]


def first_definitions(
    vhost: str,
    users: list[StoredUser],
    permission: tuple[str, str, str] = (".*", ".*", ".*"),
    default_queue_type: str = "",
) -> Definitions:
    """Return the definitions of a new broker: one virtual host, in which these users have the permission.

    `permission` has the patterns for configure, write and read.
    """
    first = Definitions()
    first.vhosts.append(StoredVHost(vhost, "Default virtual host", default_queue_type=default_queue_type))
    for user in users:
        first.users.append(user)
        first.permissions.append(StoredPermission(user.name, vhost, *permission))
    return first


class ChangeObserver:
    """Notified of each change to virtual hosts, users, permissions, topic permissions and parameters."""

    def configured(self, change: Change) -> None:
        """Notify of a record that was put or deleted. Policies are parameters."""
