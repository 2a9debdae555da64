"""Differences that are there for a reason: what they are found by, and the reason."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from .documents import Difference


@dataclass(frozen=True)
class Known:
    """A known difference. `subject`, `place`, `warren` and `reference` are patterns in which * stands for anything."""

    subject: str
    place: str
    reason: str
    warren: str = "*"
    reference: str = "*"

    def covers(self, one: Difference) -> bool:
        pairs = (
            (self.subject, one.subject),
            (self.place, one.place),
            (self.warren, one.warren),
            (self.reference, one.reference),
        )
        return all(fnmatchcase(text, pattern.replace("[", "[[]")) for pattern, text in pairs)


NEWER = "a route of RabbitMQ 4.1 to 4.3, whose API Warren speaks"
ZERO = "RabbitMQ leaves a figure out of which it has had no report; Warren says 0"
OWN_VERSION = "the version that the broker says it is of"

KNOWN: tuple[Known, ...] = (
    Known("* /health/checks/quorum-queues-without-elected-leaders/*", "*", NEWER),
    Known("* /health/checks/metadata-store/*", "*", NEWER),
    Known("* /health/checks/reached-target-cluster-size*", "*", NEWER),
    Known("* /health/checks/is-in-service*", "*", NEWER),
    Known("* /health/checks/below-node-connection-limit*", "*", NEWER),
    Known("* /health/checks/ready-to-serve-clients*", "*", NEWER),
    Known("* /vhosts/{vhost}/deletion/protection*", "*", NEWER),
    Known("*", "*.protected_from_deletion", "a field of RabbitMQ 4.1"),
    Known("*", "*", ZERO, "0", "no such field"),
    Known("*", "*_details", ZERO, "{'rate': 0.0}", "no such field"),
    Known("GET /version*", "body", OWN_VERSION),
    Known(
        "*",
        "*.hashing_algorithm",
        "passwords are hashed with argon2id, which RabbitMQ lacks; its hashes are taken too",
        "'argon2id'",
    ),
)


def reason_of(one: Difference, table: tuple[Known, ...] = KNOWN) -> str | None:
    """The reason of the first entry that covers it, or None."""
    return next((entry.reason for entry in table if entry.covers(one)), None)
