"""The dead-lettered copy of a message, with its x-death header. Pure functions.

The `x-death` header has an entry for each queue and reason, the latest first. An `x-death` header that a client sent is
not continued but replaced (`Message.dead_lettered`).

A message may pass any number of queues, so only the latest entries are kept, and one of the earlier ones: the anchor.
`x-death-omitted` counts the others. A cycle of queues in which the message expires again and again is found when it
returns to a queue of an entry that is kept. Whenever the count is a power of two, the next entry becomes the anchor, as
in Brent's algorithm, so the anchor is soon in the cycle, however long that is.
"""

from functools import lru_cache

from ...amqp import properties
from ...amqp.field_table import Table, Value
from ..messages.message import DELIVERY_COUNT, Message, RoutingAddress
from ..messages.message_state import BY_QUEUE, NEVER, NO_TTL, WITHOUT_CC, MessageState

REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"  # reasons

CYCLIC = (EXPIRED, MAXLEN, DELIVERY_LIMIT)  # reasons for which a message may pass the same queues for ever

DEATHS = "x-death"
FIRST = ("x-first-death-reason", "x-first-death-queue", "x-first-death-exchange")
LAST = ("x-last-death-reason", "x-last-death-queue", "x-last-death-exchange")
OMITTED = "x-death-omitted"
HISTORY = (*LAST, *FIRST, DEATHS, OMITTED, DELIVERY_COUNT)
DEATHS_LIMIT, DEATHS_BYTES = 64, 1 << 14  # of the entries of x-death
VALUES_LIMIT = 512  # values in these entries, about: a table with more than 1,024 is refused
KEYS_LIMIT, KEYS_BYTES = 64, 1 << 11  # of the routing keys in an entry
REMEMBERED = 256  # cached entries: of many messages that are dead-lettered in the same second, all but one are cheap
COUNT_BYTES = 15  # of the field `count` at the start of an entry
_REJECTED = Table.encode_items([("reason", ("S", REJECTED.encode()))])


def dead_letter_copy(
    message: Message, queue: str, reason: str, exchange: str, routing_key: str | None, timestamp_s: int
) -> Message:
    """Return the copy for `exchange`, with the configured routing key or the message's own."""
    raw = dead_letter_properties(message, queue, reason, timestamp_s)
    persistent = properties.delivery_mode(raw) == 2
    if routing_key is not None:
        return copy_with_properties(message, RoutingAddress(exchange, routing_key), raw, persistent, WITHOUT_CC, ())
    address = RoutingAddress(exchange, message.address.routing_key)
    kind = message.dead_lettered or BY_QUEUE
    return copy_with_properties(message, address, raw, persistent, kind, message.bcc_keys)


def copy_with_properties(
    message: Message,
    address: RoutingAddress,
    property_bytes: bytes,
    persistent: bool,
    dead_lettered: int,
    bcc_keys: tuple[str, ...],
) -> Message:
    copy = Message(address, message.frames_with(property_bytes), 0, message.body_bytes, 0, persistent)
    copy.state = MessageState(NO_TTL, NEVER, 0, 0, dead_lettered, bcc_keys)
    copy.seq = -message.seq
    return copy


def dead_letter_properties(message: Message, queue: str, reason: str, timestamp_s: int) -> bytes:
    """Return the properties with this death in the x-death header, and without the expiration."""
    raw = message.property_bytes
    headers = properties.headers(raw) or Table.EMPTY
    own = message.address
    expiration = properties.text(raw, properties.EXPIRATION)
    if message.dead_lettered:
        deaths = _deaths(headers)
        entry = _take_entry(deaths, queue, reason)
        if entry is None:
            keys = _own_keys(message, headers, deaths)[:KEYS_LIMIT]
            entry = _entry(queue, reason, own.exchange, keys, expiration, timestamp_s)
        fields = _names(LAST, queue, reason, own.exchange)
        if FIRST[0] not in headers:
            fields += _names(FIRST, queue, reason, own.exchange)
        deaths, omitted = _latest([Table(entry), *deaths], headers.integer(OMITTED) or 0)
        fields.append((DEATHS, ("A", [("F", death) for death in deaths])))
        if omitted:
            fields.append((OMITTED, ("l", omitted)))
        headers = headers.without((DELIVERY_COUNT,)).with_items(fields)
    else:
        keys = _own_keys(message, headers, [])[:KEYS_LIMIT]  # a cache keeps them
        first = _first_death(queue, reason, own.exchange, keys, expiration, timestamp_s)
        headers = Table(headers.without(HISTORY).raw + first)
    changed = properties.replace(raw, properties.HEADERS, headers)
    if expiration is not None:
        changed = properties.replace(changed, properties.EXPIRATION, None)
    return changed


def routing_keys(message: Message, configured: str | None) -> tuple[str, ...]:
    """Return the routing keys of a dead letter: the configured one, or all of the message's own."""
    if configured is not None:
        return (configured,)
    headers = properties.headers(message.property_bytes) or Table.EMPTY
    return (*_own_keys(message, headers, _deaths(headers) if message.dead_lettered else []), *message.bcc_keys)


def cycles(message: Message, queue: str) -> bool:
    """Return whether a dead-lettered copy closes a cycle in this queue (`cycle`)."""
    if queue.encode("utf-8", "surrogateescape") not in message.property_bytes:
        return False  # the usual case, found without decoding
    return queue in cycle(message)


def cycle(message: Message) -> set[str]:
    """Return the queues that have dead-lettered the message, and no consumer has rejected it since."""
    passed: set[str] = set()
    for death in _deaths(properties.headers(message.property_bytes) or Table.EMPTY):
        reason = death.text("reason")
        if reason == REJECTED:
            break
        queue = death.text("queue")
        if queue is not None and reason in CYCLIC:
            passed.add(queue)
    return passed


def _deaths(headers: Table) -> list[Table]:
    """Return the entries of x-death, the latest first."""
    value = headers.get(DEATHS)
    if value is None or not isinstance(value[1], list):
        return []
    return [death for _, death in value[1] if isinstance(death, Table)]


def _take_entry(deaths: list[Table], queue: str, reason: str) -> bytes | None:
    """Remove and return the entry of this queue and reason, its count incremented; None if there is none.

    Entries are encoded here, with the fields in this order, so their first bytes can be compared.
    """
    wanted = _start(reason, queue)
    for index, death in enumerate(deaths):
        if death.raw.startswith(wanted, COUNT_BYTES):
            del deaths[index]
            count = int.from_bytes(death.raw[COUNT_BYTES - 8 : COUNT_BYTES], "big")
            return Table.encode_items([("count", ("l", count + 1))]) + death.raw[COUNT_BYTES:]
    return None


def _latest(deaths: list[Table], omitted: int) -> tuple[list[Table], int]:
    """Return the entries to keep, the anchor last, and the number of those that were ever omitted.

    A rejection ends the search for a cycle, so no entry before it is the anchor.
    """
    values = [4 + death.raw.count(b"S\0\0\0") for death in deaths]  # all strings are short ones
    count, size = sum(values), sum([len(death.raw) for death in deaths])
    while len(deaths) > 2 and (len(deaths) > DEATHS_LIMIT or size > DEATHS_BYTES or count > VALUES_LIMIT):
        omitted += 1
        at = -2 if omitted & (omitted - 1) and not deaths[-2].raw.startswith(_REJECTED, COUNT_BYTES) else -1
        size -= len(deaths.pop(at).raw)
        count -= values.pop(at)
    return deaths, omitted


def _start(reason: str, queue: str) -> bytes:
    """Return the bytes of an entry behind its count, up to the queue."""
    return Table.encode_items([("reason", _text(reason)), ("queue", _text(queue))])


@lru_cache(REMEMBERED)
def _entry(
    queue: str, reason: str, exchange: str, keys: tuple[str, ...], expiration: str | None, timestamp_s: int
) -> bytes:
    """Return the entry of the first death in this queue for this reason."""
    fields: list[tuple[str, Value]] = [
        ("count", ("l", 1)),
        ("reason", _text(reason)),
        ("queue", _text(queue)),
        ("time", ("T", timestamp_s)),
        ("exchange", _text(exchange)),
        ("routing-keys", ("A", _first_keys(keys))),
    ]
    if expiration is not None:
        fields.append(("original-expiration", _text(expiration)))
    return Table.encode_items(fields)


@lru_cache(REMEMBERED)
def _first_death(
    queue: str, reason: str, exchange: str, keys: tuple[str, ...], expiration: str | None, timestamp_s: int
) -> bytes:
    """Return all headers of a message's first death. HOT: bench S, X."""
    entry = Table(_entry(queue, reason, exchange, keys, expiration, timestamp_s))
    fields = _names(LAST, queue, reason, exchange) + _names(FIRST, queue, reason, exchange)
    return Table.encode_items([*fields, (DEATHS, ("A", [("F", entry)]))])


def _first_keys(keys: tuple[str, ...]) -> list[Value]:
    """Return the routing key and as many of CC as may be repeated in each entry."""
    values: list[Value] = []
    size = 0
    for key in keys:
        size += len(key)
        if values and size > KEYS_BYTES:
            break
        values.append(_text(key))
    return values


def _names(keys: tuple[str, str, str], queue: str, reason: str, exchange: str) -> list[tuple[str, Value]]:
    """Return the headers with these three keys: reason, queue and exchange."""
    return list(zip(keys, [_text(reason), _text(queue), _text(exchange)], strict=True))


def _own_keys(message: Message, headers: Table, deaths: list[Table]) -> tuple[str, ...]:
    """Return the routing key and the keys of the CC header.

    A configured routing key replaces them all, but the CC header stays. So CC is ignored then, and once the message was
    dead-lettered elsewhere with another routing key than its present one.
    """
    own = message.address.routing_key
    copied = headers.get("CC")
    if copied is None or not isinstance(copied[1], list) or message.dead_lettered == WITHOUT_CC:
        return (own,)
    for death in deaths:
        keys = death.get("routing-keys")
        if keys is not None and isinstance(keys[1], list) and keys[1] and keys[1][0] != _text(own):
            return (own,)
    return (own, *[key.decode("utf-8", "surrogateescape") for kind, key in copied[1] if kind == "S"])


def _text(text: str) -> Value:
    return ("S", text.encode("utf-8", "surrogateescape"))
