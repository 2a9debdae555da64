"""What the log says of a message beyond its numbers. Pure; bodies are hashed here, and go no further."""

from __future__ import annotations

from hashlib import blake2b

from broker.plugin import Message, Table, properties

RECEIVED_FROM = "x-received-from"
# What federation writes into headers, or may take away, on the way from one broker to the next.
FEDERATED = (RECEIVED_FROM, "x-invalid-headers", "x-original-exchange", "x-original-routing-key", "x-original-cc", "CC")
DIGEST_BYTES = 16


def wanted(headers: bool) -> int:
    """The property flags of messages that the writer has to look into; `headers` too, where some are exported."""
    found = properties.MESSAGE_ID | properties.CORRELATION_ID | properties.PRIORITY
    return found | properties.HEADERS if headers else found


def identity(message: Message) -> str:
    """What the message is known by on both sides of a link: its message_id, else a fingerprint of its content."""
    raw = message.property_bytes
    message_id = properties.text(raw, properties.MESSAGE_ID)
    if message_id:
        return message_id
    headers = properties.headers(raw)
    if headers is not None:
        own = headers.without(FEDERATED)
        raw = properties.replace(raw, properties.HEADERS, own if own.raw else None)
    raw = properties.replace(raw, properties.USER_ID, None)
    return blake2b(message.body, digest_size=DIGEST_BYTES, key=blake2b(raw).digest()).hexdigest()


def hops(message: Message) -> int:
    """How many brokers it has come through by federation."""
    raw = message.property_bytes
    if RECEIVED_FROM.encode() not in raw:
        return 0  # the usual answer, given without decoding
    value = (properties.headers(raw) or Table.EMPTY).get(RECEIVED_FROM)
    return len(value[1]) if value is not None and isinstance(value[1], list) else 0
