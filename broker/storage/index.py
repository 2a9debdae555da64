"""The index of the log: by id, where the record of each message is, and which messages are live.

A message has one id from its publish to its settlement. Ids ascend through the whole log, so the messages that were
first written to one segment are one range of ids: a block. Compaction copies live messages to the end of the log and
changes only their places. So a block has one part for each segment with records of its messages: offset and size of
each record, 8 bytes, and one bit that is set once the record is dead, because its message was settled or copied; the
ids of copies, 8 bytes each; and more for messages of several queues or with a delivery count. A part is deleted with
its segment, a block with its last part.

The worker encodes a checkpoint while the loop continues. Therefore `lend` returns the state of a part itself, to which
the loop adds messages that the checkpoint omits; the first change of lent data copies it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from .checkpoint import BlockState, PartState
from .segment import OFFSET_BITS, Segment
from .shared_messages import LentSharing, Sharing


class Part:
    """Records of messages of one block in one segment, by their positions."""

    __slots__ = ("number", "first_id", "ids", "offsets", "sizes", "sharing", "_dead", "_lent")

    def __init__(self, number: int, first_id: int, ids: array[int] | None = None) -> None:
        self.number = number  # the number of the segment
        self.first_id = first_id
        self.ids = ids  # the ids of copies, ascending; None if positions count the ids from `first_id` on
        self.offsets = array("I")  # of the records in the segment, 0 for a missing one, and their `sizes` in bytes
        self.sizes = array("I")
        self.sharing: Sharing | None = None  # the queues of messages that went to several, or None
        self._dead = bytearray()
        self._lent = False

    def position(self, id_: int) -> int:
        """Return the position of a message, or -1."""
        if self.ids is None:
            at = id_ - self.first_id
            return at if 0 <= at < len(self.offsets) else -1
        at = bisect_left(self.ids, id_)
        return at if at < len(self.ids) and self.ids[at] == id_ else -1

    def positions(self, ids: set[int], first_id: int, last_id: int) -> list[int]:
        """Return the positions of the messages that the part has; `first_id` and `last_id` are the limits of `ids`."""
        if self.ids is None:
            return [at for id_ in ids if (at := id_ - self.first_id) < len(self.offsets)]
        start = bisect_left(self.ids, first_id)
        there = enumerate(self.ids[start : bisect_right(self.ids, last_id)], start)
        return [at for at, id_ in there if id_ in ids]

    def add(self, id_: int, offset: int, size: int) -> int:
        """Add a record, and return its position. Copies are added in the order of their ids."""
        if self.ids is not None:
            self.ids.append(id_)
        self.offsets.append(offset)
        self.sizes.append(size)
        return len(self.offsets) - 1

    def extend(self, count: int) -> None:
        """Extend the part to at least `count` positions; the records of the new ones are missing."""
        missing = max(count - len(self.offsets), 0)
        self.offsets.frombytes(bytes(4 * missing))
        self.sizes.frombytes(bytes(4 * missing))

    def settle(self, at: int, queue: int) -> bool:
        """Note that a queue no longer wants a live message; return whether it is dead now. HOT: bench D."""
        if self.sharing is not None and not self.sharing.settle(at, queue):
            return False
        self.mark_dead(at)
        return True

    def settle_many(self, positions: list[int] | range) -> tuple[int, int]:
        """Settle messages of one queue each; return how many died, and their bytes. HOT: bench D."""
        self._own()
        dead = self._dead
        is_run = isinstance(positions, range)
        highest = positions[-1] if is_run else max(positions)
        if highest >> 3 >= len(dead):
            dead.extend(bytes((highest >> 3) + 64 - len(dead)))
        if is_run:  # mostly: all bits at once
            first, count = positions[0], len(positions)
            at, end = first >> 3, (first + count + 7) >> 3
            bits = int.from_bytes(dead[at:end], "little")
            settled = ((1 << count) - 1) << (first & 7)
            if not bits & settled:
                dead[at:end] = (bits | settled).to_bytes(end - at, "little")
                return count, sum(self.sizes[first : first + count])
        count = size = 0
        for at in positions:
            if not dead[at >> 3] & 1 << (at & 7):
                dead[at >> 3] |= 1 << (at & 7)
                count += 1
                size += self.sizes[at]
        return count, size

    def share(self, at: int, count: int, queues: Sequence[int]) -> None:
        """Note that `count` messages from this position on went to these queues."""
        if self.sharing is None:
            self.sharing = Sharing()
        self.sharing.add(at, count, queues)

    def wanting(self, at: int) -> list[int] | None:
        """Return the queues that still want a message of several queues, or None for any other message."""
        return self.sharing.wanting(at) if self.sharing is not None else None

    def mark_dead(self, at: int) -> None:
        self._own()
        if at >> 3 >= len(self._dead):
            self._dead.extend(bytes((at >> 3) + 64 - len(self._dead)))
        self._dead[at >> 3] |= 1 << (at & 7)

    def is_dead(self, at: int) -> bool:
        return at >> 3 < len(self._dead) and bool(self._dead[at >> 3] & 1 << (at & 7))

    def live_positions(self) -> Iterator[int]:
        """Yield the positions of all records that are not dead."""
        dead, count = self._dead, len(self.offsets)
        for start in range(0, count, 8):
            bits = dead[start >> 3] if start >> 3 < len(dead) else 0
            if bits != 0xFF:
                for at in range(start, min(start + 8, count)):
                    if not bits & 1 << (at & 7):
                        yield at

    @property
    def untouched(self) -> bool:
        """Whether no record is known to be dead, and each message is of one queue."""
        return not self._dead and self.sharing is None

    @property
    def is_complete(self) -> bool:
        """Whether no record is missing."""
        return not self.offsets.count(0)

    def lend(self) -> PartState:
        """Return the present state, which does not change until `give_back`."""
        self._lent = True
        sharing = self.sharing.lend() if self.sharing is not None else None
        return PartState(self.number, self.ids, len(self.offsets), self._dead, sharing)

    def give_back(self) -> None:
        self._lent = False
        if self.sharing is not None:
            self.sharing.give_back()

    def restore(self, state: PartState) -> None:
        """Take over the state of a checkpoint, without the records themselves."""
        self.ids = state.ids
        self._dead = bytearray(state.dead)
        assert not isinstance(state.sharing, LentSharing), "it was decoded"
        self.sharing = state.sharing
        if self.ids is not None:
            self.extend(len(self.ids))

    def _own(self) -> None:
        """Copy the bits before a change if they are lent."""
        if self._lent:
            self._lent = False
            self._dead = self._dead[:]


class Block:
    """The messages that were first written to one segment.

    count     the number of ids, from `first_id` on
    parts     the parts; the first one has the messages that were first written to a segment, until that is deleted
    attempts  delivery counts by queue and id
    further   by position, the number of holders after the first one of a message that was stored for no queue; it ends
              after the last message with several holders, and is not in checkpoints
    """

    __slots__ = ("first_id", "count", "parts", "attempts", "further", "_lent")

    def __init__(self, first_id: int, count: int = 0) -> None:
        self.first_id = first_id
        self.count = count
        self.parts: list[Part] = []
        self.attempts: dict[tuple[int, int], int] = {}
        self.further = array("I")
        self._lent = False

    @property
    def end_id(self) -> int:
        return self.first_id + self.count

    def locate(self, id_: int) -> tuple[Part | None, int]:
        """Return the part and the position of a live message with a record, or None and 0."""
        for part in self.parts:
            at = part.position(id_)
            if at >= 0 and not part.is_dead(at) and part.offsets[at]:
                return part, at
        return None, 0

    def copies_in(self, number: int, id_: int) -> Part:
        """Return the part for the copy of a message in this segment: the last one, or a new one."""
        part = self.parts[-1] if self.parts else None
        if part is None or part.number != number or part.ids is None or len(part.ids) > 0 and part.ids[-1] >= id_:
            part = Part(number, self.first_id, array("Q"))
            self.parts.append(part)
        return part

    def record_attempts(self, queue: int, id_: int, attempts: int) -> None:
        """Set how often the message has returned to this queue."""
        self._own()
        self.attempts[queue, id_] = attempts

    def forget_attempts(self, queue: int, id_: int) -> None:
        if (queue, id_) in self.attempts:
            self._own()
            del self.attempts[queue, id_]

    def lend(self) -> BlockState:
        """Return the present state, which does not change until `give_back`."""
        self._lent = True
        return BlockState(self.first_id, self.count, [part.lend() for part in self.parts], self.attempts)

    def give_back(self) -> None:
        self._lent = False
        for part in self.parts:
            part.give_back()

    def _own(self) -> None:
        if self._lent:
            self._lent = False
            self.attempts = dict(self.attempts)


def new_block(number: int, first_id: int) -> Block:
    """Return a block for the messages that are first written to this segment, with the part for these."""
    block = Block(first_id)
    block.parts.append(Part(number, first_id))
    return block


class Index:
    """The blocks and the segments of a log; it counts the live messages of each segment."""

    __slots__ = ("segments", "sparse", "_blocks", "_first_ids", "_last", "_having")

    def __init__(self) -> None:
        self.segments: dict[int, Segment] = {}  # the segments that have files, and the current one, by number
        self.sparse: dict[int, Segment] = {}  # all complete ones that are mostly dead, and perhaps other complete ones
        self._blocks: list[Block] = []  # in ascending order
        self._first_ids: list[int] = []
        self._last = Block(0)  # the result of the last search
        self._having: dict[int, list[Block]] = {}  # by segment, the blocks with parts in it

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    def last_block(self, number: int) -> Block | None:
        """Return the block that was first written to this segment, if that is the last one."""
        block = self._blocks[-1] if self._blocks else None
        return block if block is not None and block.parts[0].number == number and block.parts[0].ids is None else None

    def add(self, block: Block) -> None:
        """Add a block and the segments of its parts."""
        at = bisect_left(self._first_ids, block.first_id)
        self._blocks.insert(at, block)
        self._first_ids.insert(at, block.first_id)
        for part in block.parts:
            self.note(part.number, block)

    def note(self, number: int, block: Block) -> None:
        """Note that a block has a part in this segment."""
        having = self._having.setdefault(number, [])
        if not having or having[-1] is not block:
            having.append(block)

    def missing(self, id_: int, end_id: int) -> Block:
        """Return the block for a live message without one: a new block, up to `end_id` or the next block.

        If the block before has its first segment, whose last records are damaged then, it is extended.
        """
        at = bisect_right(self._first_ids, id_)
        if at < len(self._blocks):
            end_id = min(end_id, self._first_ids[at])
        before = self._blocks[at - 1] if at else None
        if before is not None and before.parts[0].ids is None:
            before.count = end_id - before.first_id
            return before
        first_id = before.end_id if before is not None else 0
        block = Block(first_id, end_id - first_id)
        self.add(block)
        return block

    def find(self, id_: int) -> Block | None:
        """Return the block of a message, or None if all messages of the block are dead. HOT: bench D."""
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

    def locate(self, id_: int) -> tuple[Part | None, int]:
        """Return the part and the position of a live message, or None and 0."""
        block = self.find(id_)
        return block.locate(id_) if block is not None else (None, 0)

    def place(self, id_: int) -> int:
        """Return the place of a live message, or 0."""
        part, at = self.locate(id_)
        return part.number << OFFSET_BITS | part.offsets[at] if part is not None else 0

    def hold(self, id_: int) -> bool:
        """Count another holder of a message that was stored for no queue; return False if the message is dead."""
        block = self.find(id_)
        if block is None or block.locate(id_)[0] is None:
            return False
        at, further = id_ - block.first_id, block.further
        if at >= len(further):
            further.frombytes(bytes(4 * (at + 1 - len(further))))
        further[at] += 1
        return True

    def let_go(self, id_: int) -> bool:
        """Count a holder of a message less; return False, and count none, if no other one holds it."""
        block = self.find(id_)
        if block is None or id_ - block.first_id >= len(block.further) or not block.further[id_ - block.first_id]:
            return False
        block.further[id_ - block.first_id] -= 1
        return True

    def settle(self, queue: int, id_: int) -> None:
        """Note that a queue no longer wants a message. HOT: bench D."""
        block = self.find(id_)
        if block is None:
            return
        if block.attempts:
            block.forget_attempts(queue, id_)
        part, at = block.locate(id_)
        if part is not None and part.settle(at, queue):
            self._leave(part, 1, part.sizes[at])

    def settle_many(self, queue: int, ids: list[int]) -> None:
        """Note that a queue no longer wants these messages, part by part if they are of one block. HOT: bench D."""
        if len(ids) == 1:
            self.settle(queue, ids[0])
            return
        first_id, last_id = ids[0], ids[-1]
        is_run = last_id - first_id == len(ids) - 1 and ids == list(range(first_id, last_id + 1))
        if not is_run:
            first_id, last_id = min(ids), max(ids)
        block = self.find(first_id)
        if block is not None and not block.attempts and last_id < block.end_id:
            part = block.parts[0]
            if len(block.parts) == 1 and part.ids is None:
                start = part.first_id
                if is_run:
                    self._settle_in(part, queue, range(first_id - start, last_id + 1 - start))
                else:
                    self._settle_in(part, queue, [id_ - start for id_ in ids])
                return
            wanted = set(ids)
            for part in block.parts:
                if positions := part.positions(wanted, first_id, last_id):
                    self._settle_in(part, queue, positions)
            return
        for id_ in ids:
            self.settle(queue, id_)

    def _settle_in(self, part: Part, queue: int, positions: list[int] | range) -> None:
        if part.sharing is not None:
            for at in positions:
                if not part.is_dead(at) and part.settle(at, queue):
                    self._leave(part, 1, part.sizes[at])
            return
        self._leave(part, *part.settle_many(positions))

    def copied(self, id_: int, number: int, offset: int, size: int) -> None:
        """Note the copy of a live message, which counts from now on."""
        block = self.find(id_)
        assert block is not None, "it is live"
        part, at = block.locate(id_)
        assert part is not None, "it is live"
        wanting = part.wanting(at)
        self._leave(part, 1, part.sizes[at])
        part.mark_dead(at)
        copies = block.copies_in(number, id_)
        at = copies.add(id_, offset, size)
        if wanting is not None:
            copies.share(at, 1, wanting)
        self.note(number, block)
        self.enter(copies, at)

    def enter(self, part: Part, at: int) -> None:
        """Count a live message."""
        segment = self.segments[part.number]
        segment.live += 1
        segment.live_bytes += part.sizes[at]

    def _leave(self, part: Part, count: int, size: int) -> None:
        """Count `count` messages of `size` bytes together no longer as live."""
        segment = self.segments[part.number]
        segment.live -= count
        segment.live_bytes -= size
        if segment.complete and segment.mostly_dead:
            self.sparse[segment.number] = segment

    def complete(self, segment: Segment) -> None:
        """Note that nothing is appended to a segment any more."""
        segment.complete = True
        self.sparse[segment.number] = segment

    def remove(self, segment: Segment) -> None:
        """Remove a deleted segment and its records."""
        self.segments.pop(segment.number, None)
        self.sparse.pop(segment.number, None)
        for block in self._having.pop(segment.number, ()):
            block.parts = [part for part in block.parts if part.number != segment.number]
            if not block.parts:
                self.drop(block)

    def drop(self, block: Block) -> None:
        """Remove a block without parts."""
        at = bisect_left(self._first_ids, block.first_id)
        if at < len(self._blocks) and self._blocks[at] is block:
            del self._blocks[at], self._first_ids[at]
        if self._last is block:
            self._last = Block(0)
