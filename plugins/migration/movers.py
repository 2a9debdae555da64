"""The links of a migration, which the target runs: they continue while the command does not run.

A Warren drains queues by federation links, a RabbitMQ by shovels. Both acknowledge a message at the source after it is
safe at the target.
"""

from collections.abc import Collection
from typing import NamedTuple, Protocol
from urllib.parse import quote

from warren.broker.ctl.errors import NotFound

from .brokers import Broker, QueueName, with_vhost

UPSTREAM, SHOVEL = "federation-upstream", "shovel"
PREFETCH = 1000
RECONNECT_S = 1
NOT_STARTED = "the shovel does not start; the log of the RabbitMQ has the reason"
LINK_LIMIT = "warren.federation_link_limit"  # the beginning of the error of a refused link
STARTING = "starting"
DOWN = ("error", "terminated", "invalid_upstream_uri", "shutdown")


class LinkState(NamedTuple):
    """The state of the link of one queue."""

    moved: int | None = None  # messages since the link began, or None if the broker does not count them
    unconfirmed: int = 0  # messages on the way
    problem: str = ""  # the reason for which it moves none, or empty
    refused: bool = False  # true if the broker runs no more links


class Mover(Protocol):
    """The links of one migration at the target. All methods raise APIError, Unreachable, TimeoutError."""

    def queues(self) -> set[QueueName]:
        """Return the queues that have a link."""

    def set(self, queues: Collection[QueueName]) -> None:
        """Make the links of these queues, and remove all others."""

    def state(self) -> dict[QueueName, LinkState]:
        """Return the state of each link."""

    def is_link(self, connection: str) -> bool:
        """Return whether a connection with this name at the source is one of the links."""


class Drains:
    """The drains of a Warren: an upstream for each virtual host, and a link for each queue that it lists.

    `name` is that of the upstreams, `uri` leads from the target to the source.
    """

    def __init__(self, target: Broker, name: str, uri: str) -> None:
        self._target = target
        self._name = name
        self._uri = uri

    def _listed(self) -> dict[str, list[str]]:
        rows = self._target.get("parameters", UPSTREAM)
        return {row["vhost"]: row["value"].get("drain", []) for row in rows if row["name"] == self._name}

    def queues(self) -> set[QueueName]:
        return {QueueName(vhost, name) for vhost, names in self._listed().items() for name in names}

    def set(self, queues: Collection[QueueName]) -> None:
        wanted: dict[str, list[str]] = {}
        for queue in sorted(queues):
            wanted.setdefault(queue.vhost, []).append(queue.name)
        listed = self._listed()
        changed = [(vhost, names) for vhost, names in wanted.items() if listed.get(vhost) != names]
        upstreams = [(vhost, self._name, self._upstream(vhost, names)) for vhost, names in changed]
        self._target.put_parameters(UPSTREAM, upstreams)
        self._target.delete_parameters(UPSTREAM, [(vhost, self._name) for vhost in listed if vhost not in wanted])

    def _upstream(self, vhost: str, names: list[str]) -> dict[str, object]:
        uri = with_vhost(self._uri, vhost)
        return {"uri": uri, "drain": names, "prefetch-count": PREFETCH, "reconnect-delay": RECONNECT_S}

    def state(self) -> dict[QueueName, LinkState]:
        states = {}
        for row in self._target.get("federation-links"):
            if row["type"] == "queue" and row["upstream"] == self._name:
                running = row["status"] == "running"
                error = row.get("error", "")
                problem = error or (row.get("reason", "") if row.get("state") != "flowing" else "")
                problem = problem or ("" if running else row["status"])
                unconfirmed, refused = row["unconfirmed"] if running else 0, error.startswith(LINK_LIMIT)
                state = LinkState(row["forwarded"] - unconfirmed, unconfirmed, problem, refused)
                states[QueueName(row["vhost"], row["queue"])] = state
        return states

    def is_link(self, connection: str) -> bool:
        return connection == f"Federation link (upstream: {self._name}, drain)"


class Shovels:
    """The shovels of a RabbitMQ, one for each queue; its plugin rabbitmq_shovel has to be enabled."""

    def __init__(self, target: Broker, name: str, uri: str) -> None:
        self._target = target
        self._prefix = f"{name}: "
        self._uri = uri
        self._starting: set[QueueName] = set()  # at the last request

    def _rows(self) -> list[tuple[QueueName, str]]:
        names = [(row["vhost"], row["name"]) for row in self._target.get("parameters", SHOVEL)]
        prefix = self._prefix
        return [(QueueName(vhost, name.removeprefix(prefix)), name) for vhost, name in names if name.startswith(prefix)]

    def queues(self) -> set[QueueName]:
        return {queue for queue, _ in self._rows()}

    def set(self, queues: Collection[QueueName]) -> None:
        rows = self._rows()
        new = sorted(set(queues) - {queue for queue, _ in rows})
        shovels = [(queue.vhost, self._prefix + queue.name, self._shovel(queue)) for queue in new]
        self._target.put_parameters(SHOVEL, shovels)
        self._target.delete_parameters(SHOVEL, [(queue.vhost, name) for queue, name in rows if queue not in queues])

    def _shovel(self, queue: QueueName) -> dict[str, object]:
        return {
            "src-protocol": "amqp091",
            "src-uri": with_vhost(self._uri, queue.vhost),
            "src-queue": queue.name,
            "src-consumer-args": {"x-priority": -1},
            "src-prefetch-count": PREFETCH,
            "src-delete-after": "never",
            "dest-protocol": "amqp091",
            "dest-uri": f"amqp:///{quote(queue.vhost, safe='')}",
            "dest-queue": queue.name,
            "dest-add-forward-headers": False,
            "ack-mode": "on-confirm",
            "reconnect-delay": RECONNECT_S,
        }

    def state(self) -> dict[QueueName, LinkState]:
        queues = self.queues()
        states = dict.fromkeys(queues, LinkState())
        try:
            rows = self._target.get("shovels")
        except NotFound:  # without rabbitmq_shovel_management
            return states
        starting = set(queues)
        for row in rows:
            queue = QueueName(row["vhost"], row["name"].removeprefix(self._prefix))
            if row["name"].startswith(self._prefix) and queue in queues and row["state"] != STARTING:
                starting.discard(queue)
                if row["state"] in DOWN:
                    states[queue] = LinkState(problem=str(row.get("reason") or row["state"]))
        # RabbitMQ does not report why a shovel fails while it starts, and lists none between two attempts.
        states |= dict.fromkeys(starting & self._starting, LinkState(problem=NOT_STARTED))
        self._starting = starting
        return states

    def is_link(self, connection: str) -> bool:
        return connection.startswith(f"Shovel {self._prefix}")
