"""Deduplication of messages by a header: queues and exchanges with `x-message-deduplication` drop duplicates.

The cache is in memory only, so no message is a duplicate of one from before a restart.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from ...amqp.field_table import INTEGERS, Table, fixed_value
from ...amqp.properties import headers
from ..messages.message import Message
from ..messages.message_state import NEVER

HEADER = "x-deduplication-header"
TTL = "x-cache-ttl"
CACHE_SIZE = 128


class Deduplication:
    """A cache of the last `size` values of the header `header`, which expire after `ttl_ms` if that is set.

    Its keys are hashes of the values (`key_of`), empty without the header: such a message is never a duplicate.
    `duplicates` counts dropped messages. `read_cost` is that of the last message's headers (`Table.read_cost`).
    """

    __slots__ = ("header", "size", "ttl_ms", "duplicates", "read_cost", "_expires_ms")

    def __init__(self, arguments: Table) -> None:
        self.header = arguments.text(HEADER) or HEADER
        self.size = arguments.integer("x-cache-size") or CACHE_SIZE
        self.ttl_ms = arguments.integer(TTL)
        self.duplicates = 0
        self.read_cost = 0
        self._expires_ms: OrderedDict[bytes, int] = OrderedDict()  # by key, the oldest first

    def key_of(self, message: Message) -> bytes:
        """Return a hash of the header's value, empty without the header. Integers of any width are equal."""
        found = headers(message.property_bytes) or Table.EMPTY
        encoded = found.encoded(self.header)
        self.read_cost = found.read_cost
        if not encoded:
            return b""
        value = fixed_value(encoded)
        if value is not None:
            encoded = Table.encode_items([("", ("l", value[1]) if value[0] in INTEGERS else value)])
        return blake2b(encoded, digest_size=16).digest()

    def is_duplicate(self, key: bytes, now_ms: int) -> bool:
        """Return whether the key is in the cache, and count a duplicate if so."""
        seen = self.has_seen(key, now_ms)
        self.duplicates += seen
        return seen

    def has_seen(self, key: bytes, now_ms: int) -> bool:
        """Return whether the key is in the cache and has not expired."""
        expires_ms = self._expires_ms.get(key) if key else None
        return expires_ms is not None and not NEVER < expires_ms <= now_ms

    def add(self, key: bytes, message: Message, now_ms: int) -> None:
        """Put the key of an accepted message in the cache."""
        if not key:
            return
        ttl_ms = (headers(message.property_bytes) or Table.EMPTY).integer(TTL)
        if ttl_ms is None:
            ttl_ms = self.ttl_ms
        seen = self._expires_ms
        seen.pop(key, None)
        if len(seen) >= self.size:
            seen.popitem(last=False)
        seen[key] = NEVER if ttl_ms is None else now_ms + max(ttl_ms, 0)
