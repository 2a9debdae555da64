"""A policy: the queues and exchanges it matches, and the settings it gives them."""

from collections.abc import Mapping

from .patterns import Pattern, SearchTime

Definition = Mapping[str, object]  # key of a policy, such as `max-length` -> its value

SHARDS_PER_NODE, SHARD_ROUTING_KEY = "shards-per-node", "routing-key"  # of exchanges (`vhost.sharding`)
MIRRORING = (  # keys of RabbitMQ 3, accepted so that its definitions can be imported; they have no effect
    *("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size"),
    *("ha-promote-on-shutdown", "ha-promote-on-failure"),
)
_STREAMS = ("max-age", "stream-max-segment-size-bytes", "stream-filter-size-bytes", "initial-cluster-size")
# queue type -> keys that it does not support: a policy with one of them does not apply to queues of that type
UNSUPPORTED: dict[str, frozenset[str]] = {
    "classic": frozenset(
        (
            *_STREAMS,
            *("delivery-limit", "dead-letter-strategy", "max-in-memory-length", "max-in-memory-bytes"),
            *("target-group-size", "consumer-disconnected-timeout"),
        )
    ),
    "quorum": frozenset((*_STREAMS, *MIRRORING, "queue-mode", "queue-version", "queue-master-locator")),
}
# apply-to -> whether it includes exchanges, and the queue types it includes
APPLY_TO: dict[str, tuple[bool, frozenset[str]]] = {
    "queues": (False, frozenset(("classic", "quorum", "stream"))),
    "classic_queues": (False, frozenset(("classic",))),
    "quorum_queues": (False, frozenset(("quorum",))),
    "streams": (False, frozenset(("stream",))),
    "exchanges": (True, frozenset()),
    "all": (True, frozenset(("classic", "quorum", "stream"))),
}


class Policy:
    """A policy or operator policy of one virtual host. It is immutable: a changed policy is a new object.

    `pattern` is a regular expression that is searched for in names; an empty one matches every name.
    """

    __slots__ = ("vhost", "name", "pattern", "definition", "priority", "apply_to", "_compiled")

    def __init__(
        self, vhost: str, name: str, pattern: str, definition: Definition, priority: int, apply_to: str
    ) -> None:
        """Raises Invalid for a bad pattern."""
        self.vhost = vhost
        self.name = name
        self.pattern = pattern
        self.definition = definition
        self.priority = priority
        self.apply_to = apply_to
        self._compiled = Pattern(pattern or ".*")

    def applies(self, kind: str, queue_type: str, name: str, searches: SearchTime) -> bool | None:
        """Return whether the policy applies to a queue or exchange of its virtual host; None if the search is too long.

        `kind` is "queue" or "exchange"; `queue_type` is "classic" or "quorum", and ignored for an exchange.
        """
        exchanges, queue_types = APPLY_TO[self.apply_to]
        if kind == "queue":
            if queue_type not in queue_types:
                return False
            if not UNSUPPORTED.get(queue_type, frozenset()).isdisjoint(self.definition):
                return False
        elif not exchanges:
            return False
        return searches.search(self._compiled, name)

    def search_times_out(self, name: str, searches: SearchTime) -> bool:
        """Return whether the search for the pattern in this name takes too long."""
        return searches.search(self._compiled, name) is None
