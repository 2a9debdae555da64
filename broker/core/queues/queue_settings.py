"""The settings of a queue: its arguments merged with the policies that apply to it."""

from collections.abc import Mapping

from ...amqp.field_table import Table
from ..metadata.queue_types import CLASSIC, QUORUM

NO_POLICY: dict[str, object] = {}
NONE = -1  # no limit or time is set
SETTINGS_CACHE_LIMIT = 1024  # settings cached for a virtual host; beyond it the cache is emptied
CACHED_BYTES = 4096  # of arguments; settings for longer ones are not cached
DROP_HEAD, REJECT, REJECT_DLX = "drop-head", "reject-publish", "reject-publish-dlx"
QUORUM_DELIVERY_LIMIT = 20
QUORUM_LEVELS, QUORUM_LEVEL = 31, 4  # the highest priority, and that of a message without one


class QueueSettings:
    """The settings of a queue. Limits and times are NONE if they are not set.

    ttl_ms, expires_ms          of messages; of the queue while it is unused
    max_length, max_bytes       limits of ready messages, and of their bodies
    rejects_publish             messages beyond these limits are rejected (`reject-publish`)
    drops_head                  the oldest messages are dropped instead (`drop-head`)
    dead_letters_rejected       rejected messages are dead-lettered (`reject-publish-dlx`)
    dead_letters_at_least_once  messages stay in the journal until the targets have taken their copies
    dead_letter_exchange        or None
    dead_letter_key             the routing key of dead letters, None for the message's own
    delivery_limit              how often a message may be requeued
    counts_deliveries           requeues are counted, in quorum queues and for a delivery limit
    max_priority                0 for a queue without priorities
    single_active_consumer      one consumer is served, the others wait
    deduplicates                duplicates are dropped
    per_message                 published messages have to be looked at one by one
    record_key                  queues with equal keys share one record of a message in the journal; None for a queue
                                that decides by itself which messages it takes
    """

    __slots__ = (
        *("type", "ttl_ms", "expires_ms", "max_length", "max_bytes", "rejects_publish", "drops_head"),
        *("dead_letters_rejected", "dead_letters_at_least_once", "dead_letter_exchange", "dead_letter_key"),
        *("delivery_limit", "counts_deliveries", "max_priority", "_default_priority", "single_active_consumer"),
        *("deduplicates", "per_message", "record_key"),
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
            overflow = DROP_HEAD  # quorum queues do not support it
        self.rejects_publish = limited and overflow != DROP_HEAD
        self.drops_head = limited and not self.rejects_publish
        self.dead_letters_rejected = self.rejects_publish and overflow == REJECT_DLX
        self.dead_letter_exchange = text(arguments, policy, "dead-letter-exchange")
        # With any other overflow RabbitMQ falls back to at-most-once: a full queue would drop what waits for a target.
        self.dead_letters_at_least_once = (
            quorum
            and overflow == REJECT
            and self.dead_letter_exchange is not None
            and text(arguments, policy, "dead-letter-strategy") == "at-least-once"
        )
        self.dead_letter_key = text(arguments, policy, "dead-letter-routing-key")
        given = both(arguments, policy, "delivery-limit")
        if quorum and not given:
            given = [QUORUM_DELIVERY_LIMIT]
        self.counts_deliveries = bool(given) or quorum
        # A negative limit is none, and none is more than any.
        self.delivery_limit = NONE if not given or min(given) < 0 else min(given)
        self.max_priority = QUORUM_LEVELS if quorum else max(arguments.integer("x-max-priority") or 0, 0)
        self._default_priority = QUORUM_LEVEL if quorum else 0  # the priority of a message without one
        self.single_active_consumer = arguments.flag("x-single-active-consumer") or False
        self.deduplicates = arguments.flag("x-message-deduplication") or False
        decides = self.rejects_publish or self.deduplicates or self.ttl_ms == 0
        self.record_key = None if decides else (self.ttl_ms, self.max_priority, quorum)
        self.per_message = self.ttl_ms != NONE or self.rejects_publish or self.max_priority > 0 or self.deduplicates

    def level(self, priority: int | None) -> int:
        """Return the level of a priority: its distance above the default priority, modulo the number of priorities.

        So level 0, which the journal need not store, is that of messages without a priority.
        """
        if priority is None:
            return 0
        return (min(priority, self.max_priority) - self._default_priority) % (self.max_priority + 1)

    def priority(self, level: int) -> int:
        """Return the priority of a level."""
        return (level + self._default_priority) % (self.max_priority + 1)


class QueueSettingsCache:
    """The settings of the queues of one virtual host.

    Queues with the same arguments and policies share theirs, because a policy may apply to very many queues at once.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By the bytes of the arguments and the identity of the policy, which is kept so that no other can have it.
        self._known: dict[tuple[bytes, int], tuple[Mapping[str, object], QueueSettings]] = {}

    def get(self, arguments: Table, policy: Mapping[str, object]) -> QueueSettings:
        """Return the settings. Neither argument may change from now on."""
        if len(arguments.raw) > CACHED_BYTES:
            return QueueSettings(arguments, policy)
        key = (arguments.raw, id(policy))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= SETTINGS_CACHE_LIMIT:
                self._known.clear()
            known = self._known[key] = (policy, QueueSettings(arguments, policy))
        return known[1]


def both(arguments: Table, policy: Mapping[str, object], key: str) -> list[int]:
    """Return the values of the argument and of the policy, as far as they are set."""
    given = arguments.integer(f"x-{key}")
    ruled = policy.get(key)
    return [value for value in (given, ruled) if isinstance(value, int)]


def least(arguments: Table, policy: Mapping[str, object], key: str) -> int:
    """Return the smaller of the values of argument and policy, NONE without either."""
    return min(both(arguments, policy, key), default=NONE)


def text(arguments: Table, policy: Mapping[str, object], key: str) -> str | None:
    """Return the value of the argument, or of the policy, or None."""
    given = arguments.text(f"x-{key}")
    if given is not None:
        return given
    ruled = policy.get(key)
    return ruled if isinstance(ruled, str) else None
