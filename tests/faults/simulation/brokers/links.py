"""The federation of a world: which broker takes messages from which, and whether a link has all that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.simulation.brokers.broker import Process

Edge = tuple[str, str]
"""A link's upstream and downstream."""

SHAPES: dict[str, tuple[Edge, ...]] = {
    "pair": (("a", "b"),),
    "both": (("a", "b"), ("b", "a")),
    "chain": (("a", "b"), ("b", "c")),
    "ring": (("a", "b"), ("b", "c"), ("c", "a")),
    "complete": (("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")),
}
EXCHANGE, QUEUE = "fed", "work"
TYPES = {"fanout": "", "direct": "key", "topic": "key"}
POLICIES = {"exchanges": f"^{EXCHANGE}$", "queues": f"^{QUEUE}$"}


@dataclass(frozen=True)
class Federation:
    """The links, drawn from the seed."""

    shape: str
    max_hops: int
    ack_mode: str
    prefetch: int
    reconnect_s: float
    exchange_type: str
    by_set: bool
    single_channel: bool

    @classmethod
    def draw(cls, random: Random) -> Federation:
        shape = random.choice(["pair", "pair", "both", "both", "chain", "ring", "complete"])
        return cls(
            shape,
            1 if shape == "complete" else random.choice((1, 2, 3)),
            random.choice(("on-confirm", "on-confirm", "on-confirm", "on-publish", "no-ack")),
            random.choice((1, 3, 20, 1000)),
            random.choice((0.2, 0.5)),
            random.choice(sorted(TYPES)),
            random.random() < 0.5,
            random.random() < 0.3,
        )

    @property
    def edges(self) -> tuple[Edge, ...]:
        return SHAPES[self.shape]

    @property
    def brokers(self) -> list[str]:
        return sorted({name for edge in self.edges for name in edge})

    @property
    def cyclic(self) -> bool:
        """Whether links lead from a broker back to it."""
        return self.shape not in ("pair", "chain")

    @property
    def key(self) -> str:
        return TYPES[self.exchange_type]

    def paths(self, origin: str) -> dict[str, tuple[Edge, ...]]:
        """Return the brokers that a message published at `origin` reaches, each with the links that lead there."""
        found: dict[str, tuple[Edge, ...]] = {origin: ()}
        for _ in range(self.max_hops):
            for upstream, path in list(found.items()):
                for edge in self.edges:
                    if edge[0] == upstream and edge[1] not in found:
                        found[edge[1]] = (*path, edge)
        return found

    def upstreams(self, name: str) -> list[str]:
        return [upstream for upstream, downstream in self.edges if downstream == name]

    # What an operator does

    def define(self, process: Process, name: str) -> None:
        """Set the upstreams of a broker, and the policies."""
        parameters = process.node.parameters
        for upstream in self.upstreams(name):
            value: dict[str, Any] = {
                "uri": f"amqp://{upstream}?heartbeat=3&connection_timeout=3000",
                "reconnect-delay": self.reconnect_s,
                "ack-mode": self.ack_mode,
                "prefetch-count": self.prefetch,
                "max-hops": self.max_hops,
                "channel-use-mode": "single" if self.single_channel else "multiple",
            }
            parameters.set("/", "federation-upstream", upstream, value)
        elements = [{"upstream": upstream} for upstream in self.upstreams(name)]
        if self.by_set and elements:
            parameters.set("/", "federation-upstream-set", "chosen", elements)
        for policy in POLICIES if elements else ():
            self.set_policy(process, policy)

    def set_policy(self, process: Process, policy: str) -> None:
        definition = {"federation-upstream-set": "chosen" if self.by_set else "all"}
        process.node.policies.set("/", policy, POLICIES[policy], definition, 0, policy)

    def toggle_policy(self, process: Process, policy: str) -> None:
        """Clear a policy, or set it if it is not set."""
        if any(each.name == policy for each in process.node.policies.all("/")):
            process.node.policies.clear("/", policy)
        else:
            self.set_policy(process, policy)

    # What is there

    def blocked(self, process: Process) -> bool:
        """Whether a link has messages that its broker refuses for now."""
        return any(row["state"] == "blocked" for row in process.federation.status())

    def complete(self, upstream: Process, downstream: Process, edge: Edge) -> bool:
        """Whether the exchange link is to run and runs, and its upstream has stored all that it needs."""
        local = downstream.vhost.exchanges.get(EXCHANGE)
        rows = downstream.federation.status()
        statuses = [row["status"] for row in rows if (row["type"], row["upstream"]) == ("exchange", edge[0])]
        fed = upstream.vhost.exchanges.get(EXCHANGE)
        queue = f"federation: {EXCHANGE} -> {edge[1]}"
        if statuses != ["running"] or fed is None or local is None or local.policy is None:
            return False
        internal = [each.destination for each in fed.outgoing.values() if each.destination.name.startswith(queue)]
        bound = any(each.destination.name == queue for one in internal for each in one.outgoing.values())
        return bound and upstream.all_stored and downstream.all_stored

    def has_sink(self, process: Process) -> bool:
        """Whether the queue of the broker's own exchange is bound."""
        fed = process.vhost.exchanges.get(EXCHANGE)
        return fed is not None and any(each.destination.name == "sink" for each in fed.outgoing.values())

    def running(self, process: Process, name: str) -> bool:
        """Whether there is just one link for each upstream and object, and all of them run."""
        expected = sorted((kind, upstream) for kind in ("exchange", "queue") for upstream in self.upstreams(name))
        rows = process.federation.status()
        found = sorted((str(row["type"]), str(row["upstream"])) for row in rows)
        return found == expected and all(row["status"] == "running" for row in rows)
