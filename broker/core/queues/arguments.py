"""The arguments of queue.declare: known names, their values, and those that must be equal in a redeclaration.

Unknown arguments are stored and have no effect.
"""

from collections.abc import Callable, Iterable

from ...amqp.errors import PreconditionFailed
from ...amqp.field_table import INTEGERS, TERM_LENGTH, Table, Value, same, text_of, type_name
from ...amqp.limits import LONGEST_MS, SHORT_STRING
from ..metadata.queue_types import CLASSIC, QUORUM

CACHE_LIMIT = 10_000_000  # the most values that a deduplication cache may hold; each takes about 250 bytes
OVERFLOWS = (b"drop-head", b"reject-publish", b"reject-publish-dlx")
QUEUE_TYPE = "x-queue-type"
ARGUMENTS_BYTES = 16_384  # for one declaration, binding or consumer, because its arguments stay in memory


def refused(key: str, where: str, reason: str) -> PreconditionFailed:
    return PreconditionFailed(f"invalid arg '{key}' for {where}: {reason}")


def integer(key: str, value: Value, where: str) -> int:
    """Return the integer. Raises PreconditionFailed (406) for a value of another type."""
    kind, number = value
    if kind not in INTEGERS or not isinstance(number, int):
        raise refused(key, where, f'"expected integer, got {type_name(value)}"')
    return number


def not_negative(key: str, value: Value, where: str) -> None:
    number = integer(key, value, where)
    if number < 0:
        raise refused(key, where, f"{{value_negative,{number}}}")


def duration(key: str, value: Value, where: str) -> None:
    not_negative(key, value, where)
    number = integer(key, value, where)
    if number > LONGEST_MS:
        raise refused(key, where, f"{{value_too_large,{number}}}")


def expiry(key: str, value: Value, where: str) -> None:
    if integer(key, value, where) == 0:
        raise refused(key, where, "{value_zero,0}")
    duration(key, value, where)


def priority(key: str, value: Value, where: str) -> None:
    not_negative(key, value, where)
    number = integer(key, value, where)
    if number > 255:
        raise refused(key, where, f"{{max_value_exceeded,{number}}}")


def any_integer(key: str, value: Value, where: str) -> None:
    integer(key, value, where)


def exchange_name(key: str, value: Value, where: str) -> None:
    if value[0] != "S":
        raise PreconditionFailed(f"invalid type '{type_name(value)}' for arg '{key}' in {where}")


def text(key: str, value: Value, where: str) -> bytes:
    if value[0] != "S" or not isinstance(value[1], bytes):
        raise refused(key, where, f"{{unacceptable_type,{type_name(value)}}}")
    return value[1]


def any_text(key: str, value: Value, where: str) -> None:
    text(key, value, where)


def routing_key(key: str, value: Value, where: str) -> None:
    length = len(text(key, value, where))
    if length > SHORT_STRING:  # messages could not be delivered with it
        raise refused(key, where, f'"a routing key has at most {SHORT_STRING} octets, got {length}"')


def overflow(key: str, value: Value, where: str) -> None:
    if text(key, value, where) not in OVERFLOWS:
        raise refused(key, where, "invalid_overflow")


def dead_letter_strategy(key: str, value: Value, where: str) -> None:
    if text(key, value, where) not in (b"at-most-once", b"at-least-once"):
        raise refused(key, where, "invalid_dlx_strategy")


def boolean(key: str, value: Value, where: str) -> None:
    if value[0] != "t":
        raise refused(key, where, f"{{unacceptable_type,{type_name(value)}}}")


def queue_type(key: str, value: Value, where: str) -> None:
    name = text(key, value, where)
    if name == b"stream":
        raise refused(key, where, '"streams are not supported by this broker: use a classic or a quorum queue"')
    if name not in (b"classic", b"quorum"):
        shown = name[:TERM_LENGTH].decode("utf-8", "replace")
        raise refused(key, where, f"\"unsupported queue type '{shown}'\"")


def queue_mode(key: str, value: Value, where: str) -> None:
    name = text(key, value, where)
    if name not in (b"lazy", b"default"):
        shown = name[:TERM_LENGTH].decode("utf-8", "replace")
        raise refused(key, where, f"\"unsupported queue mode '{shown}'\"")


def queue_version(key: str, value: Value, where: str) -> None:
    number = integer(key, value, where)
    if number not in (1, 2):
        raise refused(key, where, f"\"unsupported queue version '{number}'\"")


def delayed_retry(key: str, value: Value, where: str) -> None:
    """Refuse delayed retries of quorum queues (RabbitMQ 4.3), which would have no effect."""
    if key != "x-delayed-retry-type" or value[1] != b"disabled":
        raise refused(key, where, '"delayed retries are not supported by this broker"')


def leader_locator(key: str, value: Value, where: str) -> None:
    if text(key, value, where) not in (b"client-local", b"balanced"):
        raise refused(key, where, "invalid_queue_locator_arg")


def cache_size(key: str, value: Value, where: str) -> None:
    number = integer(key, value, where)
    if not 0 < number <= CACHE_LIMIT:
        raise refused(key, where, f'"expected an integer from 1 to {CACHE_LIMIT}, got {number}"')


_STREAMS = ("x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size")
# queue type -> arguments that RabbitMQ refuses for it, because they have no effect there
UNSUPPORTED: dict[str, tuple[str, ...]] = {
    CLASSIC: (*_STREAMS, "x-max-in-memory-length", "x-max-in-memory-bytes", "x-quorum-initial-group-size"),
    QUORUM: (*_STREAMS, "x-max-priority", "x-queue-mode", "x-queue-version", "x-queue-master-locator"),
}
OF_STREAM_CONSUMERS = ("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered")

Check = Callable[[str, Value, str], object]

DEDUPLICATION: dict[str, Check] = {
    "x-message-deduplication": boolean,
    "x-cache-size": cache_size,
    "x-cache-ttl": duration,
    "x-deduplication-header": any_text,
}
EXCHANGE_ARGUMENTS: dict[str, Check] = {"x-delayed-exchange": boolean, **DEDUPLICATION}  # of exchanges of all types

KNOWN: dict[str, Check] = {
    "x-expires": expiry,
    "x-message-ttl": duration,
    "x-dead-letter-exchange": exchange_name,
    "x-dead-letter-routing-key": routing_key,
    "x-dead-letter-strategy": dead_letter_strategy,
    "x-max-length": not_negative,
    "x-max-length-bytes": not_negative,
    "x-max-priority": priority,
    "x-overflow": overflow,
    "x-single-active-consumer": boolean,
    QUEUE_TYPE: queue_type,
    "x-queue-mode": queue_mode,
    "x-queue-version": queue_version,
    "x-consumer-timeout": not_negative,
    "x-delivery-limit": any_integer,
    "x-queue-master-locator": any_text,
    "x-queue-leader-locator": leader_locator,
    **dict.fromkeys((f"x-delayed-retry-{name}" for name in ("type", "min", "max", "multiplier")), delayed_retry),
    **DEDUPLICATION,
}


def check_size(arguments: Table) -> None:
    """Raise PreconditionFailed (406) for arguments that are too large."""
    size = len(arguments.raw)
    if size > ARGUMENTS_BYTES:
        raise PreconditionFailed(f"arguments of {size} bytes are larger than the limit of {ARGUMENTS_BYTES}")


def check_queue_arguments(arguments: Table, where: str) -> None:
    """Raise PreconditionFailed (406) for the first invalid argument. `where` is `queue 'q' in ...`."""
    for key, value in arguments.items():
        check = KNOWN.get(key)
        if check is not None:
            check(key, value, where)
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        raise refused("x-dead-letter-routing-key", where, "routing_key_but_no_dlx_defined")


def check_queue_type(arguments: Table, where: str, *, durable: bool, exclusive: bool, auto_delete: bool) -> None:
    """Raise PreconditionFailed (406) for properties and arguments that the type of queue does not support."""
    type_ = arguments.text(QUEUE_TYPE) or CLASSIC
    if type_ == QUORUM:
        for forbidden, property_ in (
            (not durable, "non-durable"),
            (exclusive, "exclusive-owner"),
            (auto_delete, "auto-delete"),
        ):
            if forbidden:
                raise PreconditionFailed(f"invalid property '{property_}' for {where}")
    refuse_unsupported(UNSUPPORTED.get(type_, ()), arguments, where, type_)


def check_consumer_arguments(arguments: Table, where: str, type_: str) -> None:
    """Raise PreconditionFailed (406) for arguments that are invalid, or that the type of queue does not support.

    RabbitMQ has the timeout, in milliseconds, since version 4.3. Unknown arguments have no effect.
    """
    timeout = arguments.get("x-consumer-timeout")
    if timeout is not None:
        not_negative("x-consumer-timeout", timeout, where)
    refuse_unsupported(OF_STREAM_CONSUMERS, arguments, where, type_)


def refuse_unsupported(keys: Iterable[str], arguments: Table, where: str, type_: str) -> None:
    for key in keys:
        if key in arguments:
            raise PreconditionFailed(f"invalid arg '{key}' for {where} of queue type rabbit_{type_}_queue")


def with_queue_type(arguments: Table, type_: str) -> Table:
    """Return the arguments, with this queue type if they have none and it is not empty."""
    if not type_ or QUEUE_TYPE in arguments:
        return arguments
    return arguments.with_items([(QUEUE_TYPE, ("S", type_.encode()))])


def differing_queue_argument(received: Table, current: Table) -> str | None:
    """Return the first known argument in which the two differ, or None. A missing queue type is `classic`."""
    for key in KNOWN:
        new, old = received.get(key), current.get(key)
        if key == QUEUE_TYPE:
            new, old = new or ("S", b"classic"), old or ("S", b"classic")
        if not same(new, old):
            return key
    return None


def plain(value: object) -> str:
    """Return the value as RabbitMQ prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_same_flags(where: str, flags: Iterable[tuple[str, object, object]]) -> None:
    """Raise PreconditionFailed (406) for the first (name, received, current) in which the values differ."""
    for what, received, current in flags:
        if received != current:
            raise inequivalent(what, where, plain(received), plain(current))


def inequivalent(what: str, where: str, received: str, current: str) -> PreconditionFailed:
    shown = f"received '{received}' but current is '{current}'"
    return PreconditionFailed(f"inequivalent arg '{what}' for {where}: {shown}")


def inequivalent_argument(key: str, where: str, received: Table, current: Table) -> PreconditionFailed:
    """Return the error for a differing argument; its text says `none` for a missing value."""
    new, old = received.get(key), current.get(key)
    if key == QUEUE_TYPE:
        new, old = new or ("S", b"classic"), old or ("S", b"classic")
    if new is not None and old is not None:
        return inequivalent(key, where, text_of(new), text_of(old))
    shown = [
        f"the value '{text_of(value)}' of type '{type_name(value)}'" if value is not None else "none"
        for value in (new, old)
    ]
    return PreconditionFailed(f"inequivalent arg '{key}' for {where}: received {shown[0]} but current is {shown[1]}")
