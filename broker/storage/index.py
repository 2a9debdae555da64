"""The index of the log: by id, where the record of each message is, and which messages are live.

A message has one id from its publish to its settlement. Ids ascend through the whole log, so the messages that were
first written to one segment are one range of ids: a block. It has offset and size of the record of each message, 8
bytes, and one bit that is set once the message is dead; and more for messages of several queues or with a delivery
count. Compaction copies live messages to the end of the log, which changes their places, and nothing else. A block
outlives its segment as long as messages of it are live.
The worker encodes a checkpoint while the loop goes on. `lend` therefore returns the state of the block itself, and
the first change while it is lent copies it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from .segment import OFFSET_BITS, Segment
from .shared_messages import Sharing


class BlockState:
    """The state of one block in a checkpoint.

    number    of its segment, which may have been deleted
    dead      one bit for each message, from the first id on
    sharing   the queues of messages that went to several; None if there are none
    attempts  delivery counts by queue and id
    """

    __slots__ = ("number", "first_id", "count", "dead", "sharing", "attempts")

    def __init__(
        self,
        number: int,
        first_id: int,
        count: int,
        dead: bytes | bytearray,
        sharing: Sharing | None,
        attempts: dict[tuple[int, int], int],
    ) -> None:
        self.number = number
        self.first_id = first_id
        self.count = count
        self.dead = dead
        self.sharing = sharing
        self.attempts = attempts


class Block:
    """The messages that were first written to one segment.

    number    of the segment
    count     of ids, from `first_id` on
    offsets   of the records in the segment, and their `sizes` in bytes, from the first id on; empty once it is deleted
    moved     by id, the place and the size of the copy of a live message
    sharing   the queues of messages that went to several; None if there are none
    attempts  delivery counts by queue and id
    """

    __slots__ = ("number", "first_id", "count", "offsets", "sizes", "moved", "sharing", "attempts", "_dead", "_lent")

    def __init__(self, number: int, first_id: int) -> None:
        self.number = number
        self.first_id = first_id
        self.count = 0
        self.offsets = array("I")
        self.sizes = array("I")
        self.moved: dict[int, tuple[int, int]] = {}
        self.sharing: Sharing | None = None
        self.attempts: dict[tuple[int, int], int] = {}
        self._dead = bytearray()
        self._lent = False

    @property
    def end_id(self) -> int:
        return self.first_id + self.count

    def place(self, id_: int) -> tuple[int, int]:
        """Return the place and the size of a message; the place is 0 if it is not known."""
        moved = self.moved.get(id_) if self.moved else None
        if moved is not None:
            return moved
        index = id_ - self.first_id
        if index >= len(self.offsets) or not self.offsets[index]:
            return 0, 0
        return self.number << OFFSET_BITS | self.offsets[index], self.sizes[index]

    def add(self, id_: int, offset: int, size: int) -> None:
        """Add a message that recovery has found, unless it was found before."""
        index = id_ - self.first_id
        if index != self.count:
            self.extend(index + 1)
            if not self.offsets[index]:
                self.offsets[index], self.sizes[index] = offset, size
            return
        self.offsets.append(offset)
        self.sizes.append(size)
        self.count += 1

    def extend(self, count: int) -> None:
        """Have so many ids at least; the places of the new ones are not known."""
        missing = max(count - self.count, 0)
        self.offsets.frombytes(bytes(4 * missing))
        self.sizes.frombytes(bytes(4 * missing))
        self.count += missing

    def settle(self, queue: int, id_: int) -> bool:
        """Note that a queue wants a message no more; return whether it is dead by that. HOT: bench D."""
        if self.attempts and (queue, id_) in self.attempts:
            self._own()
            del self.attempts[queue, id_]
        if self.sharing is not None:
            self._own()
            if not self.sharing.settle(id_ - self.first_id, queue):
                return False
        index = id_ - self.first_id
        at = index >> 3
        if at < len(self._dead) and self._dead[at] & 1 << (index & 7):
            return False
        self.mark_dead(id_)
        return True

    def settle_many(self, ids: list[int]) -> tuple[int, int]:
        """Settle messages of one queue each, without delivery counts, none of which was copied. HOT: bench D.

        Return how many are dead by that, and the bytes of their records.
        """
        self._own()
        dead = self._dead
        first, highest = ids[0] - self.first_id, max(ids) - self.first_id
        if highest >> 3 >= len(dead):
            dead.extend(bytes((highest >> 3) + 64 - len(dead)))
        count = len(ids)
        if count > 1 and ids == list(range(ids[0], ids[0] + count)):  # mostly: all bits of a range at once
            at, end = first >> 3, (first + count + 7) >> 3
            bits = int.from_bytes(dead[at:end], "little")
            settled = ((1 << count) - 1) << (first & 7)
            if not bits & settled:
                dead[at:end] = (bits | settled).to_bytes(end - at, "little")
                return count, sum(self.sizes[first : first + count])
        count = size = 0
        for id_ in ids:
            index = id_ - self.first_id
            if not dead[index >> 3] & 1 << (index & 7):
                dead[index >> 3] |= 1 << (index & 7)
                count += 1
                size += self.sizes[index]
        return count, size

    def share(self, id_: int, count: int, queues: Sequence[int]) -> None:
        """Note that `count` messages from this id on went to these queues."""
        self._own()
        if self.sharing is None:
            self.sharing = Sharing()
        self.sharing.add(id_ - self.first_id, count, queues)

    def wanting(self, id_: int) -> list[int] | None:
        """Return the queues that still want a message of several queues, or None for any other message."""
        return self.sharing.wanting(id_ - self.first_id) if self.sharing is not None else None

    def wants(self, queue: int, id_: int) -> bool:
        """Return whether the queue, one of those that the message went to, still wants it."""
        return not self.is_dead(id_) and (self.sharing is None or self.sharing.wants(id_ - self.first_id, queue))

    def record_attempts(self, queue: int, id_: int, attempts: int) -> None:
        """Set how often the message has returned to this queue."""
        self._own()
        self.attempts[queue, id_] = attempts

    @property
    def is_complete(self) -> bool:
        """Whether the places of all messages in the segment are known."""
        return not self.offsets.count(0)

    def live_ids(self) -> Iterator[int]:
        """Yield the ids of all messages that are not dead."""
        dead, first_id = self._dead, self.first_id
        for start in range(0, self.count, 8):
            bits = dead[start >> 3] if start >> 3 < len(dead) else 0
            if bits != 0xFF:
                for index in range(start, min(start + 8, self.count)):
                    if not bits & 1 << (index & 7):
                        yield first_id + index

    @property
    def untouched(self) -> bool:
        """Whether no message is known to be dead, and each is of one queue."""
        return not self._dead and self.sharing is None

    def mark_dead(self, id_: int) -> None:
        if self._lent:
            self._own()
        index = id_ - self.first_id
        at = index >> 3
        if at >= len(self._dead):
            self._dead.extend(bytes(at + 64 - len(self._dead)))
        self._dead[at] |= 1 << (index & 7)

    def is_dead(self, id_: int) -> bool:
        index = id_ - self.first_id
        at = index >> 3
        return at < len(self._dead) and bool(self._dead[at] & 1 << (index & 7))

    def lend(self) -> BlockState:
        """Return the present state, which does not change until `give_back`."""
        self._lent = True
        return BlockState(self.number, self.first_id, self.count, self._dead, self.sharing, self.attempts)

    def give_back(self) -> None:
        self._lent = False

    def restore(self, state: BlockState) -> None:
        """Take over the state of a checkpoint, but for the delivery counts."""
        self._dead = bytearray(state.dead)
        self.sharing = state.sharing

    def _own(self) -> None:
        """Copy the state before a change if it is lent."""
        if self._lent:
            self._lent = False
            self._dead = self._dead[:]
            self.attempts = dict(self.attempts)
            if self.sharing is not None:
                self.sharing = self.sharing.copy()


class Index:
    """The blocks and the segments of a log; it counts the live messages of each segment.

    segments  by number, those that have files, and the current one
    """

    __slots__ = ("segments", "_blocks", "_first_ids", "_last")

    def __init__(self) -> None:
        self.segments: dict[int, Segment] = {}
        self._blocks: list[Block] = []  # in ascending order
        self._first_ids: list[int] = []
        self._last = Block(0, 0)  # that was found

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    def last_block(self, number: int) -> Block | None:
        """Return the block of this segment, if that is the last one."""
        return self._blocks[-1] if self._blocks and self._blocks[-1].number == number else None

    def add(self, block: Block) -> None:
        """Add a block, in its order."""
        at = bisect_left(self._first_ids, block.first_id)
        self._blocks.insert(at, block)
        self._first_ids.insert(at, block.first_id)

    def find(self, id_: int) -> Block | None:
        """Return the block of a message, or None if there is none, as all messages of it are dead. HOT: bench D."""
        block = self._last
        if block.first_id <= id_ < block.first_id + block.count:
            return block
        at = bisect_right(self._first_ids, id_) - 1
        if at < 0:
            return None
        block = self._blocks[at]
        if id_ >= block.end_id:
            return None
        self._last = block
        return block

    def place(self, id_: int) -> int:
        """Return the place of a message, or 0 if it is not known."""
        block = self.find(id_)
        return block.place(id_)[0] if block is not None else 0

    def is_live_at(self, id_: int, place: int) -> bool:
        """Return whether a message is live, and its record at this place is the one that counts."""
        block = self.find(id_)
        return block is not None and not block.is_dead(id_) and block.place(id_)[0] == place

    def settle(self, queue: int, id_: int) -> None:
        """Note that a queue wants a message no more. HOT: bench D."""
        block = self.find(id_)
        if block is None or not block.settle(queue, id_):
            return
        place, size = block.place(id_)
        self._leave(place, size)
        if block.moved and block.moved.pop(id_, None) is not None and not block.moved:
            self.drop_if_empty(block)

    def settle_many(self, queue: int, ids: list[int]) -> None:
        """Note that a queue wants these messages no more, in one step if they are of one block. HOT: bench D."""
        block = self.find(ids[0])
        one = block is not None and block.first_id <= min(ids) and max(ids) < block.end_id
        if block is None or not one or block.sharing is not None or block.attempts or block.moved:
            for id_ in ids:
                self.settle(queue, id_)
            return
        count, size = block.settle_many(ids)
        segment = self.segments[block.number]
        segment.live -= count
        segment.live_bytes -= size

    def move(self, id_: int, place: int, size: int) -> None:
        """Note the place of the copy of a live message."""
        block = self.find(id_)
        assert block is not None, "it is live"
        self._leave(*block.place(id_))
        block.moved[id_] = place, size
        self.enter(place, size)

    def enter(self, place: int, size: int) -> None:
        """Count a live message."""
        segment = self.segments[place >> OFFSET_BITS]
        segment.live += 1
        segment.live_bytes += size

    def _leave(self, place: int, size: int) -> None:
        segment = self.segments[place >> OFFSET_BITS]
        segment.live -= 1
        segment.live_bytes -= size

    def remove(self, segment: Segment) -> None:
        """Forget a segment that is deleted, and what is not needed without it."""
        self.segments.pop(segment.number, None)
        at = bisect_left(self._first_ids, segment.first_id)
        if at < len(self._blocks) and self._blocks[at].number == segment.number:
            block = self._blocks[at]
            block.offsets, block.sizes = array("I"), array("I")
            self.drop_if_empty(block)

    def drop_if_empty(self, block: Block) -> None:
        """Forget a block whose segment is deleted, if no message of it is live."""
        if block.number not in self.segments and not block.moved:
            at = bisect_left(self._first_ids, block.first_id)
            del self._blocks[at], self._first_ids[at]
            if self._last is block:
                self._last = Block(0, 0)
