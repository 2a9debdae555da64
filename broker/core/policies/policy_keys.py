"""The keys of policies: their values, and the merging of a policy with an operator policy.

A definition with a key that a type of queue does not support does not apply to queues of that type at all, as in
RabbitMQ. For classic queues delivery-limit is such a key, although it is a valid argument: a policy meant for quorum
queues would otherwise limit others.
"""

import re
from collections.abc import Callable, Mapping

from ...amqp.errors import Invalid
from ...amqp.limits import SHORT_STRING
from ..metadata.patterns import Pattern
from ..metadata.policy import MIRRORING, SHARD_ROUTING_KEY, SHARDS_PER_NODE, Definition
from ..metadata.validation import as_integer, fields_of, term

Allowed = Callable[[object], bool]

FEDERATION = ("federation-upstream", "federation-upstream-set", "federation-upstream-pattern")
DEDUPLICATE, MULTI_HOP = "federation-deduplicate", "federation-multi-hop"  # Warren's own, for exchanges and for queues
SHARDS_LIMIT = 1_000  # of an exchange
PATTERN_BYTES = 1024
LARGEST_SEGMENT = 3_000_000_000


def at_least(least: int, most: int = (1 << 63) - 1) -> Allowed:
    def allowed(value: object) -> bool:
        number = as_integer(value)
        return isinstance(value, int) and number is not None and least <= number <= most

    return allowed


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_flag(value: object) -> bool:
    return isinstance(value, bool)


def is_name(value: object) -> bool:
    """Return whether a value can be the name of an exchange or a routing key: a short string on the wire."""
    if not isinstance(value, str):
        return False
    try:
        return len(value.encode("utf-8", "surrogateescape")) <= SHORT_STRING
    except UnicodeEncodeError:
        return False


def among(*values: object) -> Allowed:
    return lambda value: not isinstance(value, bool) and value in values


def is_age(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}[YMDhms]", value) is not None


def is_pattern(value: object) -> bool:
    if not isinstance(value, str) or len(value.encode("utf-8", "surrogatepass")) > PATTERN_BYTES:
        return False
    try:
        Pattern(value or ".*")
    except Invalid:
        return False
    return True


def anything(value: object) -> bool:
    return True


# key -> its valid values, and RabbitMQ's error for all others
KEYS: dict[str, tuple[Allowed, str]] = {
    "alternate-exchange": (is_name, "is not a valid alternate exchange name"),
    "consumer-disconnected-timeout": (at_least(0), "is not a valid consumer disconnected timeout"),
    "consumer-timeout": (at_least(0), "is not a valid consumer timeout"),
    "dead-letter-exchange": (is_name, "is not a valid dead letter exchange name"),
    "dead-letter-routing-key": (is_name, "is not a valid dead letter routing key"),
    "dead-letter-strategy": (among("at-most-once", "at-least-once"), "is not a valid dead letter strategy"),
    "delivery-limit": (at_least(-(1 << 63)), "is not a valid delivery limit"),
    "expires": (at_least(1), "is not a valid queue expiry"),
    DEDUPLICATE: (is_flag, "is not a valid federation deduplicate flag"),
    MULTI_HOP: (is_flag, "is not a valid federation multi-hop flag"),
    "federation-upstream": (is_text, "is not a valid federation upstream name"),
    "federation-upstream-pattern": (is_pattern, "is not a valid federation upstream pattern"),
    "federation-upstream-set": (is_text, "is not a valid federation upstream set name"),
    "initial-cluster-size": (at_least(0), "is not a valid cluster size"),
    "max-age": (is_age, "is not a valid max age"),
    "max-in-memory-bytes": (at_least(0), "is not a valid maximum memory in bytes"),
    "max-in-memory-length": (at_least(0), "is not a valid maximum memory in bytes"),
    "max-length": (at_least(0), "is not a valid maximum length"),
    "max-length-bytes": (at_least(0), "is not a valid maximum length in bytes"),
    "message-ttl": (at_least(0), "is not a valid message TTL"),
    "overflow": (among("drop-head", "reject-publish", "reject-publish-dlx"), "is not a valid overflow value"),
    "queue-leader-locator": (
        among("client-local", "balanced", "random", "least-leaders"),
        "is not a valid queue leader locator value",
    ),
    "queue-master-locator": (among("client-local", "min-masters", "random"), "invalid queue-master-locator value"),
    "queue-mode": (among("default", "lazy"), "is not a valid queue-mode value"),
    "queue-version": (among(1, 2), "is not a valid queue-version value"),
    **dict.fromkeys((SHARDS_PER_NODE, SHARD_ROUTING_KEY), (anything, "")),  # `sharding_error` has their texts
    "stream-filter-size-bytes": (at_least(16, 255), "is not a valid filter size. Valid range is 16-255"),
    "stream-max-segment-size-bytes": (at_least(0, LARGEST_SEGMENT), "is not a valid segment size"),
    "target-group-size": (at_least(0), "is not a valid target group size"),
    **dict.fromkeys(MIRRORING, (anything, "")),
}
OPERATOR_KEYS = frozenset(
    (
        *("expires", "message-ttl", "max-length", "max-length-bytes", "max-in-memory-length", "max-in-memory-bytes"),
        *("delivery-limit", "queue-version", "overflow", "target-group-size"),
    )
)
TOGETHER = f"cannot specify {FEDERATION[0]}, {FEDERATION[1]} or {FEDERATION[2]} together"


def definition_lines(value: object, operator: bool) -> list[str]:
    """Return the errors in a definition: the first bad value in the order of keys, or all unknown keys."""
    if not isinstance(value, dict):
        return [f"definition should be a map, actually was {term(value)}"]
    if not value:
        return ["no policy provided"]
    if not operator and (wrong := sharding_error(value)):
        return [wrong]
    known = [key for key in sorted(value) if key in KEYS and (not operator or key in OPERATOR_KEYS)]
    for key in known:
        allowed, wrong = KEYS[key]
        if not allowed(value[key]):
            return [f"{term(value[key])} {wrong}"]
    unknown = {key: part for key, part in value.items() if key not in known}
    if unknown:
        return [f"{fields_of(unknown)} are not recognised policy settings"]
    if sum([key in value for key in FEDERATION]) > 1:
        return [TOGETHER]
    return []


def sharding_error(definition: Mapping[str, object]) -> str:
    """Return RabbitMQ's error in the keys of sharding, or an empty text. It takes fractions, too, and any number."""
    if SHARDS_PER_NODE not in definition:
        return f"{SHARDS_PER_NODE} must be specified" if SHARD_ROUTING_KEY in definition else ""
    count, key = definition[SHARDS_PER_NODE], definition.get(SHARD_ROUTING_KEY, "")
    wanted = ""
    if isinstance(count, bool) or not isinstance(count, int | float):
        wanted = "a number"
    elif count < 0:
        wanted = "greater than 0"
    elif not isinstance(count, int) or count > SHARDS_LIMIT:
        wanted = f"a whole number of at most {SHARDS_LIMIT:,}"
    if wanted:
        return f"{SHARDS_PER_NODE} should be {wanted}, actually was {term(count)}"
    return "" if is_name(key) else f"{SHARD_ROUTING_KEY} should be binary, actually was {term(key)}"


def merge_definitions(definition: Definition, operator: Definition) -> Definition:
    """Return the definition that applies with both policies: the tighter of two numbers, or the operator's value."""
    effective = dict(definition)
    for key, theirs in operator.items():
        effective[key] = tighter(key, definition[key], theirs) if key in definition else theirs
    return effective


def tighter(key: str, ours: object, theirs: object) -> object:
    """Return the tighter of two values. Of delivery limits, a negative one is no limit, as in RabbitMQ."""
    if not isinstance(ours, int) or not isinstance(theirs, int) or key == "queue-version":
        return theirs
    if key == "delivery-limit" and min(ours, theirs) < 0:
        return max(ours, theirs)
    return min(ours, theirs)
