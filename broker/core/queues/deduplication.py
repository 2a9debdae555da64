"""Deduplication of messages by a header: queues and exchanges with `x-message-deduplication` drop duplicates.

The cache is in memory only, so no message is a duplicate of one from before a restart.
"""

from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator
from hashlib import blake2b

from ...amqp.field_table import INTEGERS, Table, fixed_value
from ...amqp.properties import headers
from ..messages.binding import Destination
from ..messages.clock import Clock
from ..messages.message import Message
from ..messages.message_state import NEVER

HEADER = "x-deduplication-header"
TTL = "x-cache-ttl"
CACHE_SIZE = 128
PART_SIZE = 16_384  # of a part of a large cache: one that grows, or is freed, takes a millisecond
SPARE = 1_024  # values more than its share for which a part has room: eight times the deviation of such a number
RECORD_COST = 5  # of putting a message in the cache, beside reading its headers


class Deduplication:
    """A cache of the last values of the header `header`, which expire after `ttl_ms` if that is set.

    It has the last `x-cache-size` values, and a large one some more: it has parts, which drop their oldest values, so
    that no step takes as long as it would with all of them in one. Its keys are hashes of the values (`key_of`), empty
    without the header: such a message is never a duplicate.
    `duplicates` counts dropped messages. `read_cost` is that of the last message's headers (`Table.read_cost`).
    """

    __slots__ = ("header", "ttl_ms", "duplicates", "read_cost", "_parts", "_part_size")

    def __init__(self, arguments: Table) -> None:
        self.header = arguments.text(HEADER) or HEADER
        self.ttl_ms = arguments.integer(TTL)
        self.duplicates = 0
        self.read_cost = 0
        size = arguments.integer("x-cache-size") or CACHE_SIZE
        parts = -(-size // PART_SIZE)
        self._part_size = size if parts == 1 else size // parts + SPARE
        # Times at which values expire, by key, the oldest first, in the parts that the keys select
        self._parts: list[OrderedDict[bytes, int]] = [OrderedDict() for _ in range(parts)]

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
        expires_ms = self._part(key).get(key) if key else None
        return expires_ms is not None and not NEVER < expires_ms <= now_ms

    def add(self, key: bytes, message: Message, now_ms: int) -> None:
        """Put the key of an accepted message in the cache."""
        if not key:
            return
        ttl_ms = (headers(message.property_bytes) or Table.EMPTY).integer(TTL)
        if ttl_ms is None:
            ttl_ms = self.ttl_ms
        seen = self._part(key)
        seen.pop(key, None)
        if len(seen) >= self._part_size:
            seen.popitem(last=False)
        seen[key] = NEVER if ttl_ms is None else now_ms + max(ttl_ms, 0)

    def release(self) -> Iterator[int]:
        """Free the cache in short steps; yield how many values each has freed."""
        for part in self._parts:
            count = len(part)
            part.clear()
            yield count

    def _part(self, key: bytes) -> OrderedDict[bytes, int]:
        parts = self._parts
        return parts[0] if len(parts) == 1 else parts[int.from_bytes(key[:4], "big") % len(parts)]


class DeduplicationRecorder(Destination):
    """The cache of an exchange as a destination: it gets a message once all targets of the route have accepted it.

    A message that was refused, returned or rolled back may be published again, and one that waits is tried again.
    """

    __slots__ = ("_deduplication", "_clock")

    def __init__(self, deduplication: Deduplication, clock: Clock) -> None:
        super().__init__("")
        self._deduplication = deduplication
        self._clock = clock

    @property
    def cost(self) -> int:
        """The cost of the last message."""
        return RECORD_COST + self._deduplication.read_cost

    def has_seen(self, message: Message) -> bool:
        """Return whether a duplicate was accepted after this message was routed; if so, count one."""
        return self._deduplication.is_duplicate(self._deduplication.key_of(message), self._clock.now_ms())

    def record(self, message: Message) -> None:
        """Put an accepted message in the cache."""
        now_ms = self._clock.now_ms()
        key = self._deduplication.key_of(message)
        if not self._deduplication.has_seen(key, now_ms):
            self._deduplication.add(key, message, now_ms)


Recorders = tuple[DeduplicationRecorder, ...]
"""The caches of the exchanges on the way of a message."""


def find_duplicate(recorders: Iterable[DeduplicationRecorder], message: Message) -> Generator[int, None, bool]:
    """Return whether a duplicate was accepted after this message was routed, as in a transaction, or while it waited.

    Then it has to be routed again. A generator of the costs of its steps: the caller goes on in the last one.
    """
    cost = 0
    for recorder in recorders:
        if cost:
            yield cost
        if recorder.has_seen(message):
            return True
        cost = recorder.cost
    return False


def record(recorders: Iterable[DeduplicationRecorder], message: Message) -> Iterator[int]:
    """Put a message in the caches of exchanges on its way, in steps, once all targets have accepted it."""
    for recorder in recorders:
        recorder.record(message)
        yield recorder.cost
