"""The encodings of method arguments that links write: short and long strings, and bits."""

from warren.broker.amqp.limits import SHORT_STRING

from .errors import LinkError


def encode_short(text: str, what: str = "a name or a routing key") -> bytes:
    """Encode a short string. Raises LinkError, which says `what` it is, if it is too long."""
    encoded = text.encode("utf-8", "surrogateescape")
    if len(encoded) > SHORT_STRING:
        raise LinkError(f"{what} has {len(encoded)} bytes, {SHORT_STRING} are allowed")
    return bytes((len(encoded),)) + encoded


def encode_long(value: bytes) -> bytes:
    """Encode a long string."""
    return len(value).to_bytes(4, "big") + value


def encode_flags(*bits: bool) -> bytes:
    """Encode up to eight bits as one byte, the first one as the lowest bit."""
    return bytes((sum(bit << place for place, bit in enumerate(bits)),))
