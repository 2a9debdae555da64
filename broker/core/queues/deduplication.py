"""Duplicates, told by a header. Queues and exchanges with `x-message-deduplication` drop them.

What was seen is kept in memory alone: the first of its kind to come after a restart is no duplicate.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from ...amqp.field_table import INTEGERS, Table
from ...amqp.properties import headers
from ..messages.message import Message
from ..messages.message_state import NEVER

HEADER = "x-deduplication-header"
TTL = "x-cache-ttl"
CACHE_SIZE = 128


class Deduplication:
    """Remembers the last `size` values of the header `header`, each for `ttl_ms` or for as long as the cache has room.

    `duplicates` counts what was dropped. A message without the header is none.
    """

    __slots__ = ("header", "size", "ttl_ms", "duplicates", "_expires_ms")

    def __init__(self, arguments: Table) -> None:
        self.header = arguments.text(HEADER) or HEADER
        self.size = arguments.integer("x-cache-size") or CACHE_SIZE
        self.ttl_ms = arguments.integer(TTL)
        self.duplicates = 0
        self._expires_ms: OrderedDict[bytes, int] = OrderedDict()  # by value, the first seen in front

    def is_duplicate(self, message: Message, now_ms: int) -> bool:
        """Whether its like was seen lately; it is counted then."""
        seen = self.has_seen(message, now_ms)
        self.duplicates += seen
        return seen

    def has_seen(self, message: Message, now_ms: int) -> bool:
        """Whether its like was added, and is not forgotten yet."""
        key = self._key(message)
        expires_ms = self._expires_ms.get(key) if key else None
        return expires_ms is not None and not NEVER < expires_ms <= now_ms

    def add(self, message: Message, now_ms: int) -> None:
        """One that is no duplicate has been taken."""
        key = self._key(message)
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

    def _key(self, message: Message) -> bytes:
        """Of its value, however long that is; empty where there is none. Equal integers are equal in any width."""
        found = headers(message.property_bytes)
        value = found.get(self.header) if found is not None else None
        if value is None:
            return b""
        if value[0] in INTEGERS:
            value = ("l", value[1])
        return blake2b(Table.encode_items([("", value)]), digest_size=16).digest()
