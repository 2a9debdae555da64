"""The identity and hops of a message; pure. Of bodies only the hash is exported."""

from hashlib import blake2b

from warren.broker.amqp import properties
from warren.broker.amqp.federation_headers import RECEIVED_FROM
from warren.broker.amqp.field_table import text_of
from warren.broker.plugin import AMQPError, Message, Table

# Headers that federation adds or may remove between one broker and the next.
FEDERATED = (RECEIVED_FROM, "x-invalid-headers", "x-original-exchange", "x-original-routing-key", "x-original-cc", "CC")
FIRST_QUEUE = "x-first-death-queue"  # the header of a dead letter
DIGEST_BYTES = 16


def decoded_properties(headers: bool) -> int:
    """Return the flags of the properties that the writer decodes; `headers` is true if some headers are exported."""
    flags = properties.MESSAGE_ID | properties.CORRELATION_ID | properties.PRIORITY
    return flags | properties.HEADERS if headers else flags


def identity(message: Message) -> str:
    """Return the identity of a message on both sides of a link: its message_id, or a fingerprint of its content."""
    raw = message.property_bytes
    try:
        message_id, raw = message_id_of(raw)
    except (AMQPError, IndexError):  # malformed properties pass through links unchanged
        message_id = ""
    return message_id or blake2b(message.body, digest_size=DIGEST_BYTES, key=blake2b(raw).digest()).hexdigest()


def message_id_of(raw: bytes) -> tuple[str, bytes]:
    """Return the message_id or "", and the properties without the values that differ between the sides of a link."""
    message_id = properties.text(raw, properties.MESSAGE_ID)
    if message_id:
        return message_id, raw
    headers = properties.headers(raw)
    if headers is not None:
        own = headers.without(FEDERATED)
        raw = properties.replace(raw, properties.HEADERS, own if own.raw else None)
    return "", properties.replace(raw, properties.USER_ID, None)


def hops(message: Message) -> int:
    """Return the number of federation links that the message has passed."""
    raw = message.property_bytes
    if RECEIVED_FROM.encode() not in raw:
        return 0  # the usual result, without decoding
    try:
        value = (properties.headers(raw) or Table.EMPTY).get(RECEIVED_FROM)
    except (AMQPError, IndexError):
        return 0
    return len(value[1]) if value is not None and isinstance(value[1], list) else 0


def first_queue(raw: bytes) -> str | None:
    """Return the queue that dead-lettered the message first, given its properties, or None if none did."""
    if FIRST_QUEUE.encode() not in raw:
        return None
    try:
        headers = properties.headers(raw) or Table.EMPTY
        return text_of(headers.get(FIRST_QUEUE)) if FIRST_QUEUE in headers else None
    except (AMQPError, IndexError):
        return None
