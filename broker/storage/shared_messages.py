"""Sharing: the queues that still want each message of a segment that went to several queues.

    lists  for each id, from the segment's first on: index of its list of queues in `sets`, 0 for a message of one queue
    bits   for each id: one bit for each queue of the list that still wants the message;
           for more than 32 queues, the index of these bits in `wide`
    wide   bits of messages with more than 32 queues
    sets   number of queues | the queues, ascending | number of queues | ...

All are arrays of 32-bit words: 8 bytes a message, and each list of queues is stored once for many messages.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct

WORD = 32
LISTS = 1024  # lists of queues that are remembered for reuse
PIECE = 4096  # words that are saved together before a change

_COUNT = Struct("<I")


class Sharing:
    """The arrays of one segment. `touched` is True once any queue has settled a message."""

    __slots__ = ("touched", "_lists", "_bits", "_wide", "_sets", "_known", "_lent")

    def __init__(self) -> None:
        self.touched = False
        self._lists = array("I")
        self._bits = array("I")
        self._wide = array("I")
        self._sets = array("I", (0,))
        self._known: dict[tuple[int, ...], int] = {}
        self._lent: LentSharing | None = None

    def add(self, index: int, count: int, queues: Sequence[int]) -> None:
        """Note that these queues want the `count` messages from `index` on. HOT: bench D."""
        ordered = tuple(sorted(queues))
        at = self._known.get(ordered)
        if at is None:
            at = self._store(ordered)
        missing = index + count - len(self._lists)
        if missing > 0:
            self._lists.frombytes(bytes(4 * missing))
            self._bits.frombytes(bytes(4 * missing))
        self._lists[index : index + count] = array("I", (at,)) * count
        if len(ordered) <= WORD:
            self._bits[index : index + count] = array("I", ((1 << len(ordered)) - 1,)) * count
            return
        full = (1 << len(ordered)) - 1
        words = [full >> shift & 0xFFFFFFFF for shift in range(0, len(ordered), WORD)]
        for each in range(index, index + count):
            self._bits[each] = len(self._wide)
            self._wide.extend(words)

    def _store(self, ordered: tuple[int, ...]) -> int:
        if len(self._known) >= LISTS:
            self._known.clear()
        at = self._known[ordered] = len(self._sets)
        self._sets.append(len(ordered))
        self._sets.extend(ordered)
        return at

    def settle(self, index: int, queue: int) -> bool:
        """Note that a queue no longer wants a message, and return whether no queue wants it any more."""
        at = self._lists[index] if index < len(self._lists) else 0
        if not at:
            return True
        self.touched = True
        count, start = self._sets[at], at + 1
        bit = bisect_left(self._sets, queue, start, start + count) - start
        there = bit < count and self._sets[start + bit] == queue
        if count <= WORD:
            if there:
                if self._lent is not None:
                    self._lent.bits.save(index)
                self._bits[index] &= ~(1 << bit)
            return not self._bits[index]
        first = self._bits[index]
        if there:
            if self._lent is not None:
                self._lent.wide.save(first + bit // WORD)
            self._wide[first + bit // WORD] &= ~(1 << bit % WORD)
        return not any(self._wide[first : first + -(-count // WORD)])

    def wanting(self, index: int) -> list[int] | None:
        """Return the queues that still want the message, ascending, or None for a message of one queue."""
        at = self._lists[index] if index < len(self._lists) else 0
        if not at:
            return None
        count = self._sets[at]
        bits = self._bits[index]
        if count > WORD:
            words = self._wide[bits : bits + -(-count // WORD)]
            bits = sum(word << WORD * location for location, word in enumerate(words))
        return [queue for bit, queue in enumerate(self._sets[at + 1 : at + 1 + count]) if bits >> bit & 1]

    def wants(self, index: int, queue: int) -> bool:
        """Whether a queue to which the message was routed still wants it."""
        at = self._lists[index] if index < len(self._lists) else 0
        if not at:
            return True
        count, start = self._sets[at], at + 1
        bit = bisect_left(self._sets, queue, start, start + count) - start
        if bit == count or self._sets[start + bit] != queue:
            return False
        bits = self._bits[index]
        return bool(bits >> bit & 1 if count <= WORD else self._wide[bits + bit // WORD] >> bit % WORD & 1)

    def lend(self) -> LentSharing | None:
        """Return the present state, which does not change until `give_back`; None if it was not touched."""
        self._lent = self._state() if self.touched else None
        return self._lent

    def give_back(self) -> None:
        self._lent = None

    def encode(self) -> bytes:
        """Return the four arrays, each after its length."""
        return self._state().encode()

    def _state(self) -> LentSharing:
        return LentSharing(self._lists, self._bits, self._wide, self._sets)

    @staticmethod
    def decode(data: bytes, at: int) -> tuple[Sharing, int]:
        """Decode what `encode` returned, and return it with the offset of its end."""
        sharing = Sharing()
        sharing.touched = True
        sharing._sets = array("I")
        for each in (sharing._lists, sharing._bits, sharing._wide, sharing._sets):
            (count,) = _COUNT.unpack_from(data, at)
            at += _COUNT.size
            each.frombytes(data[at : at + 4 * count])
            each[:] = little(each)
            at += 4 * count
        return sharing, at


class LentWords:
    """The present words of an array, for the worker. The loop appends others, and saves a piece before a change."""

    def __init__(self, words: array[int]) -> None:
        self._words = words
        self._count = len(words)
        self._saved: dict[int, array[int]] = {}  # by the index of the first word

    def save(self, index: int) -> None:
        """Save the piece with this word."""
        start = index - index % PIECE
        if start not in self._saved:
            self._saved[start] = self._words[start : start + PIECE]

    def encode(self) -> bytes:
        """Return the words after their number."""
        words = self._words[: self._count]
        for start, piece in list(self._saved.items()):  # in place of words that were changed before they were read
            words[start : start + PIECE] = piece
        return _COUNT.pack(self._count) + little(words[: self._count]).tobytes()


class LentSharing:
    """The state of a sharing when it was lent."""

    def __init__(self, lists: array[int], bits: array[int], wide: array[int], sets: array[int]) -> None:
        self._lists, self.bits, self.wide, self._sets = [LentWords(each) for each in (lists, bits, wide, sets)]

    def encode(self) -> bytes:
        """Return the four arrays, each after its length."""
        return b"".join([each.encode() for each in (self._lists, self.bits, self.wide, self._sets)])


def little(words: array[int]) -> array[int]:
    """Return the array in the byte order of files, or one of a file in that of the machine."""
    if sys.byteorder == "little":
        return words
    words = words[:]
    words.byteswap()
    return words
