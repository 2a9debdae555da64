"""The messages of a fifo behind its first ones: chunks of successive messages, each in one of three forms.

Resident  messages as objects, which take about 160 bytes each beside their frames
Packed    their frames in one bytes object, and once what is the same in all of them
Stored    their ids, because the journal alone has the messages
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final

from ...amqp.framing import FRAME_OVERHEAD
from ..messages.message import Message, header_bytes_of, total_bytes
from .lazy_deque import LazyDeque, made
from .ledger import Ledger

RUN = 256  # messages of a resident or packed chunk
RUN_BYTES, ADDRESS_BYTES = 250, 8  # of memory of a packed chunk beside its contents, and of a reference to an address
LONGEST = 512  # bytes of frames; of longer messages the object is a small part, and copying them takes longer
BLOCK = 500  # messages from which on a stored chunk does not grow, unless its ids follow each other

_head: Final[Callable[[bytes, int], tuple[int, int, int]]] = Struct(">xHI4xQ").unpack_from  # channel, header, body


class Chunk:
    """Messages of a queue, of which `take` removes those in memory, and `take_ids` those that only the journal has."""

    __slots__ = ("count", "body_bytes", "saved_bytes")

    def __init__(self, messages: list[Message]) -> None:
        self.count = len(messages)  # the number of messages
        self.body_bytes = total_bytes(messages)  # the sum of the bodies of those in memory
        self.saved_bytes = 0  # the memory that is saved of what the ledger counts for them

    def take(self) -> list[Message]:
        """Remove and return some of the first messages; return none if the first one is not in memory."""
        return []

    def take_ids(self, limit: int) -> tuple[list[int], list[int]]:
        """Remove the first messages, at most `limit`, as far as they are not in memory.

        Return the id of each and its `Message.seq`.
        """
        return [], []


class Resident(Chunk):
    """Messages as objects."""

    __slots__ = ("messages",)

    def __init__(self, messages: list[Message]) -> None:
        super().__init__(messages)
        self.messages = messages

    def take(self) -> list[Message]:
        self.count = 0
        return self.messages


class Packed(Chunk):
    """Packed messages with the same delivery mode.

    contents   the frames of all messages
    lengths    of the frames of each message; None if those, the bodies' lengths and the channels are equal
    addresses  the address of each message, or one for all
    ids        `Message.id` of each; None if they are not stored
    """

    __slots__ = ("contents", "lengths", "addresses", "ids", "persistent")

    def __init__(self, messages: list[Message], alike: bool, addressed_alike: bool) -> None:
        super().__init__(messages)
        frames = [message.frames for message in messages]
        self.contents = b"".join(frames)
        self.addresses = [messages[0].address] if addressed_alike else [message.address for message in messages]
        self.lengths = None if alike else array("H", map(len, frames))
        self.ids = array("Q", [message.id for message in messages]) if messages[0].id else None
        self.persistent = messages[0].persistent
        bytes_each = (0 if self.lengths is None else 2) + (0 if self.ids is None else 8)
        taken_bytes = RUN_BYTES + len(self.contents) + ADDRESS_BYTES * len(self.addresses) + bytes_each * self.count
        header_bytes = self.count * header_bytes_of(messages[:1]) if alike else header_bytes_of(messages)
        self.saved_bytes = self.count * Ledger.OVERHEAD + self.body_bytes + header_bytes - taken_bytes

    def take(self) -> list[Message]:
        messages = self.unpack()
        self.count = 0
        return messages

    def unpack(self) -> list[Message]:
        """Return the messages. HOT: the consumers of a backlog."""
        contents, addresses, persistent = self.contents, self.addresses, self.persistent
        address = addresses[0]
        if self.lengths is None:
            channel, header_bytes, body_bytes = _head(contents, 0)
            largest = (header_bytes if header_bytes > body_bytes else body_bytes) + FRAME_OVERHEAD
            parts = splitter(len(contents) // self.count, self.count)(contents)
            messages = [Message(address, frames, channel, body_bytes, largest, persistent) for frames in parts]
        else:
            messages = []
            at = 0
            for length in self.lengths:
                channel, header_bytes, body_bytes = _head(contents, at)
                largest = (header_bytes if header_bytes > body_bytes else body_bytes) + FRAME_OVERHEAD
                frames = contents[at : at + length]
                messages.append(Message(address, frames, channel, body_bytes, largest, persistent))
                at += length
        if len(addresses) > 1:
            for message, address in zip(messages, addresses, strict=True):
                message.address = address
        if self.ids is not None:
            for message, id_ in zip(messages, self.ids, strict=True):
                message.id = id_
        return messages


def pack(messages: list[Message]) -> Packed | None:
    """Return a chunk of these messages, or None if one of them cannot be packed. HOT: bench E.

    These cannot: logged messages, those with a state, long ones, and messages of both delivery modes, or of which only
    some are stored.
    """
    first = messages[0]
    address, channel, body_bytes, persistent = first.address, first.channel, first.body_bytes, first.persistent
    length, stored = len(first.frames), 0
    alike = addressed_alike = True
    for message in messages:
        own_length = len(message.frames)
        if own_length > LONGEST or message.state is not None or message.persistent is not persistent:
            return None
        if message.id or message.seq:
            if message.seq or not first.id:
                return None
            stored += 1
        if own_length != length or message.body_bytes != body_bytes or message.channel != channel:
            alike = False
        if message.address is not address:
            addressed_alike = False
    return Packed(messages, alike, addressed_alike) if not first.id or stored == len(messages) else None


@lru_cache(32)
def splitter(length: int, count: int) -> Callable[[bytes], tuple[bytes, ...]]:
    """Return a function that splits bytes into `count` parts of one length, much faster than slices."""
    return Struct(f"{length}s" * count).unpack


class Stored(Chunk):
    """Messages of which the journal alone has the contents: their ids, and `Message.seq` if there is a traffic log.

    The ids are a range, or otherwise take 4 bytes each, or 8 if they are far apart.
    """

    __slots__ = ("_base", "_ids", "_seqs")

    def __init__(self) -> None:
        super().__init__([])
        self._base = 0  # what has to be added to each of the ids
        self._ids: range | array[int] = range(0)
        self._seqs = array("Q")  # empty if all are 0

    def append(self, ids: array[int], seqs: list[int]) -> bool:
        """Add messages, at least one, at the end; return False if the chunk takes no more."""
        known, first, end = self._ids, ids[0], ids[0] + len(ids)
        logged = len(self._seqs) > 0 or any(seqs)
        follows = isinstance(known, range) and (not known or known.stop == first)
        follows = follows and (len(ids) == 1 or ids == array("Q", range(first, end)))
        if self.count and (self._base or self.count >= BLOCK and (logged or not follows)):
            return False
        if follows:
            self._ids = range(known[0] if known else first, end)
        else:
            grown = array("Q", known) if isinstance(known, range) else known
            grown += ids
            self._ids = grown
        if logged:
            self._seqs.frombytes(bytes(8 * (self.count - len(self._seqs))))
            self._seqs.extend(seqs)
        self.count += len(ids)
        if self.count >= BLOCK and not follows:
            first = self._ids[0]
            if min(self._ids) == first and max(self._ids) - first < 1 << 32:
                self._base, self._ids = first, array("I", [id_ - first for id_ in self._ids])
            else:
                self._ids = self._ids[:]  # without space for more
        return True

    def peek(self, limit: int) -> list[int]:
        """Return the first ids, at most `limit`."""
        base, ids = self._base, self._ids[:limit]
        return [base + id_ for id_ in ids] if base else list(ids)

    def take_ids(self, limit: int) -> tuple[list[int], list[int]]:
        ids, seqs = self.peek(limit), self._seqs[:limit].tolist()
        self._ids, self._seqs = self._ids[limit:], self._seqs[limit:]
        self.count -= len(ids)
        return ids, seqs or [0] * len(ids)


class ChunkList(Chunk):
    """Chunks, oldest first, and the last messages in memory, which are fewer than a chunk.

    The ledger counts less for packed ones.
    """

    __slots__ = ("stored", "_chunks", "_last", "_shared", "_ledger")

    def __init__(self, ledger: Ledger) -> None:
        super().__init__([])
        self.stored = 0  # how many of the messages are in stored chunks
        self._chunks: LazyDeque[Chunk] = ()
        self._last: list[Message] = []  # fewer than RUN
        self._shared = False  # some of these are also in other queues
        self._ledger = ledger

    def append(self, messages: list[Message], shared: bool) -> None:
        """Add messages. Those that are `shared` with other queues are not packed: each queue would have copies.

        HOT: bench E.
        """
        self.count += len(messages)
        last = self._last
        last += messages
        self._shared = self._shared or shared
        end = len(last) - len(last) % RUN
        if not end:
            return
        self._chunks = chunks = made(self._chunks)
        for at in range(0, end, RUN):
            run = last[at : at + RUN]
            packed = None if self._shared else pack(run)
            if packed is not None:
                self._ledger.save(packed.saved_bytes)
                chunks.append(packed)
            else:
                chunks.append(Resident(run))
        del last[:end]
        self._shared = shared and len(last) > 0

    def store(self, ids: array[int], seqs: list[int]) -> None:
        """Add messages that only the journal has, with `Message.seq` of each."""
        chunks = self._close()
        for at in range(0, len(ids), BLOCK):
            chunk, some = chunks[-1] if chunks else None, ids[at : at + BLOCK]
            if not isinstance(chunk, Stored) or not chunk.append(some, seqs[at : at + BLOCK]):
                chunks.append(chunk := Stored())
                chunk.append(some, seqs[at : at + BLOCK])
        self.count += len(ids)
        self.stored += len(ids)

    def _close(self) -> deque[Chunk]:
        """Return all chunks, of which the last messages are one now."""
        self._chunks = chunks = made(self._chunks)
        if self._last:
            chunks.append(Resident(self._last))
            self._last, self._shared = [], False
        return chunks

    def put_first(self, messages: list[Message]) -> None:
        """Add a chunk of messages in front of all others."""
        self._chunks = chunks = made(self._chunks)
        chunks.appendleft(Resident(messages))
        self.count += len(messages)

    def shed(self, limit_bytes: int, store: Callable[[list[Message]], tuple[array[int], list[int]]]) -> list[Message]:
        """Have `store` store the last messages in memory, replace them by the ids that it returns, and return them.

        They are at most those of a chunk, and have at most `limit_bytes`, unless it is one message. None that is stored
        may come before them.
        """
        chunks = self._close()
        at = bisect_left(chunks, True, key=lambda chunk: isinstance(chunk, Stored)) - 1
        if at < 0:
            return []
        self._ledger.save(-chunks[at].saved_bytes)
        messages = chunks[at].take()
        chunks[at] = Resident(messages)  # before they are stored, which may fail
        first, left_bytes = len(messages) - 1, limit_bytes - len(messages[-1].frames)
        while first and len(messages[first - 1].frames) <= left_bytes:
            first -= 1
            left_bytes -= len(messages[first].frames)
        shed, stored = messages[first:], Stored()
        stored.append(*store(shed))
        chunks[at] = stored
        if first:
            chunks.insert(at, Resident(messages[:first]))
        self.stored += len(shed)
        return shed

    def take(self) -> list[Message]:
        if self._chunks:
            chunk = self._chunks[0]
            messages = chunk.take()
            if messages:
                self._ledger.save(-chunk.saved_bytes)
                made(self._chunks).popleft()
        else:
            messages, self._last, self._shared = self._last, [], False
        self.count -= len(messages)
        return messages

    def peek(self, limit: int) -> list[int]:
        """Return the ids of the first messages, at most `limit`, as far as the journal alone has them."""
        ids: list[int] = []
        for chunk in self._chunks:
            if not isinstance(chunk, Stored) or len(ids) >= limit:
                break
            ids += chunk.peek(limit - len(ids))
        return ids

    def take_ids(self, limit: int) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        seqs: list[int] = []
        while self._chunks and len(ids) < limit:
            chunk = self._chunks[0]
            taken, numbers = chunk.take_ids(limit - len(ids))
            if not taken:
                break
            ids += taken
            seqs += numbers
            if not chunk.count:
                made(self._chunks).popleft()
        self.count -= len(ids)
        self.stored -= len(ids)
        return ids, seqs

    def count_bodies(self) -> int:
        """Return the sum of the bodies of the messages in memory."""
        return sum([chunk.body_bytes for chunk in self._chunks]) + total_bytes(self._last)
