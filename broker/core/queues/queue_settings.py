"""The settings of a queue: its arguments merged with the policies that apply to it."""

from __future__ import annotations

from collections.abc import Mapping

from ...amqp.field_table import Table
from ..metadata.queue_types import CLASSIC, QUORUM

NO_POLICY: dict[str, object] = {}
NONE = -1  # no time to live, no limit
RULES_LIMIT = 1024  # that are shared in one vhost; beyond it all are made anew
DROP_HEAD, REJECT_DLX = "drop-head", "reject-publish-dlx"
QUORUM_DELIVERY_LIMIT = 20
QUORUM_LEVELS, QUORUM_LEVEL = 31, 4  # the highest priority, and that of a message without one


class QueueSettings:
    """ttl_ms, expires_ms   NONE where there is none
    max_length, max_bytes   of ready messages, and of their bodies
    refuses, trims          what would exceed them is refused; or the front is dropped for it
    dead_letter_refused     what is refused goes to the dead letter exchange too
    dead_letter_exchange    None where there is none, with the routing key that it gives, None for the message's own
    delivery_limit          how often a message may come back; `counts` says whether that is counted at all
    levels                  the highest priority, 0 where there are none
    single                  one consumer is served, the others wait
    deduplicates            a duplicate is dropped
    careful                 a publish has to be looked at message by message
    """

    __slots__ = (
        "type",
        "ttl_ms",
        "expires_ms",
        "max_length",
        "max_bytes",
        "refuses",
        "trims",
        "dead_letter_refused",
        "dead_letter_exchange",
        "dead_letter_key",
        "delivery_limit",
        "counts",
        "levels",
        "_unset",
        "single",
        "deduplicates",
        "careful",
    )

    def __init__(self, arguments: Table, policy: Mapping[str, object]) -> None:
        self.type = arguments.text("x-queue-type") or CLASSIC
        quorum = self.type == QUORUM
        self.ttl_ms = least(arguments, policy, "message-ttl")
        self.expires_ms = least(arguments, policy, "expires")
        self.max_length = least(arguments, policy, "max-length")
        self.max_bytes = least(arguments, policy, "max-length-bytes")
        limited = self.max_length != NONE or self.max_bytes != NONE
        overflow = text(arguments, policy, "overflow") or DROP_HEAD
        if quorum and overflow == REJECT_DLX:
            overflow = DROP_HEAD  # a quorum queue has no such thing
        self.refuses = limited and overflow != DROP_HEAD
        self.trims = limited and not self.refuses
        self.dead_letter_refused = self.refuses and overflow == REJECT_DLX
        self.dead_letter_exchange = text(arguments, policy, "dead-letter-exchange")
        self.dead_letter_key = text(arguments, policy, "dead-letter-routing-key")
        given = both(arguments, policy, "delivery-limit")
        if quorum and not given:
            given = [QUORUM_DELIVERY_LIMIT]
        self.counts = bool(given) or quorum
        # A negative limit is none, and none is more than any.
        self.delivery_limit = NONE if not given or min(given) < 0 else min(given)
        self.levels = QUORUM_LEVELS if quorum else max(arguments.integer("x-max-priority") or 0, 0)
        self._unset = QUORUM_LEVEL if quorum else 0  # the priority of a message without one
        self.single = arguments.flag("x-single-active-consumer") or False
        self.deduplicates = arguments.flag("x-message-deduplication") or False
        self.careful = self.ttl_ms != NONE or self.refuses or self.levels > 0 or self.deduplicates

    def level(self, priority: int | None) -> int:
        """Where a message with this priority stands: 0 with those that have none, of which the journal knows nothing,
        and from there on upwards, beyond the highest from the lowest on."""
        return 0 if priority is None else (min(priority, self.levels) - self._unset) % (self.levels + 1)

    def priority(self, level: int) -> int:
        """Of what stands there."""
        return (level + self._unset) % (self.levels + 1)


class QueueSettingsCache:
    """The rules in one virtual host. Queues with the same arguments and the same policies share theirs, as there may be
    many of them and a policy acts on all at once.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By the octets of the arguments and the identity of the policy, which is kept so that no other can have it.
        self._known: dict[tuple[bytes, int], tuple[Mapping[str, object], QueueSettings]] = {}

    def rules(self, arguments: Table, policy: Mapping[str, object]) -> QueueSettings:
        """Neither may change from now on."""
        key = (arguments.raw, id(policy))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= RULES_LIMIT:
                self._known.clear()
            known = self._known[key] = (policy, QueueSettings(arguments, policy))
        return known[1]


def both(arguments: Table, policy: Mapping[str, object], key: str) -> list[int]:
    """What the argument says, and what the policy says."""
    given = arguments.integer(f"x-{key}")
    ruled = policy.get(key)
    return [value for value in (given, ruled) if isinstance(value, int)]


def least(arguments: Table, policy: Mapping[str, object], key: str) -> int:
    """The smaller of the two, NONE where neither says anything."""
    return min(both(arguments, policy, key), default=NONE)


def text(arguments: Table, policy: Mapping[str, object], key: str) -> str | None:
    """The argument's, before the policy's."""
    given = arguments.text(f"x-{key}")
    if given is not None:
        return given
    ruled = policy.get(key)
    return ruled if isinstance(ruled, str) else None
