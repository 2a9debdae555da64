"""Features that clients use beside plain queues: a world has one, drawn from the seed, with a queue `extra` or two.

Its messages are at a place of their own, or at that of `timed` where they are dead-lettered to the same queue.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

EXTRA, OTHER = "extra", "other"  # queues; `other` is that of exchanges which choose one of two
SPREAD = "spread"  # the exchange
DEAD_LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
LIMITED = {"x-queue-type": "quorum", "x-delivery-limit": 2}
DELAYS_MS = (0, 1, 500, 4000)
POLICY = "extra"
POLICIES = ({"message-ttl": 1000}, {"max-length": 3}, {"message-ttl": 200, "max-length": 20})


@dataclass(frozen=True)
class Feature:
    """A feature.

    queues       with their arguments
    exchange     its type and arguments, if messages are published to one
    place        of its messages, without the broker
    ordered      its queues keep the order of each publisher, by priority
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    exchange: tuple[str, dict[str, Any]] | None = None
    place: str = EXTRA
    ordered: bool = True

    @property
    def queues(self) -> dict[str, dict[str, Any]]:
        names = (EXTRA, OTHER) if self.exchange is not None and self.name != "delays" else (EXTRA,)
        return dict.fromkeys(names, self.arguments)

    @property
    def dead_letters(self) -> bool:
        return self.place == "timed"

    def key(self, random: Random) -> str:
        """Return the routing key of a message."""
        return EXTRA if self.exchange is None else str(random.randrange(10))

    def properties(self, random: Random) -> dict[str, Any]:
        """Return the properties of a message."""
        if self.name == "priorities":
            return {"priority": random.randrange(4)}
        if self.name == "delays":
            return {"headers": {"x-delay": random.choice(DELAYS_MS)}}
        return {}


FEATURES = (
    Feature("priorities", {"x-max-priority": 3}),
    Feature("one active consumer", {"x-single-active-consumer": True}),
    Feature("transactions"),
    Feature("delivery limit", LIMITED | DEAD_LETTERS, place="timed"),
    Feature("policies", DEAD_LETTERS, place="timed", ordered=False),
    Feature("delays", exchange=("x-delayed-message", {"x-delayed-type": "fanout"}), place="late", ordered=False),
    Feature("hashes", exchange=("x-consistent-hash", {})),
    Feature("modulus", exchange=("x-modulus-hash", {})),
    Feature("chance", exchange=("x-random", {})),
)
IN_EXPORTS = ("priorities", "one active consumer")  # of which the checks of exported events know


def draw(random: Random, exporting: bool, full: bool) -> Feature | None:
    """Draw the feature of a world, or none; `full`: the queue of dead letters refuses some."""
    feature = random.choice((None, None, None, *FEATURES))
    if feature is None or exporting and feature.name not in IN_EXPORTS or full and feature.dead_letters:
        return None
    return feature
