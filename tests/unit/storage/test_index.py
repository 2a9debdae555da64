"""The index: settling many messages at once is the same as settling each of them, and live bytes add up."""

from __future__ import annotations

from random import Random

import pytest

from warren.broker.storage.index import Block, Index
from warren.broker.storage.segment import OFFSET_BITS, Segment

FIRST_ID = 1001
MESSAGES = 3000
SECOND_BLOCK = FIRST_ID + MESSAGES


def index_of(*blocks: tuple[int, int]) -> Index:
    """Return an index with blocks (first id, count) of messages of 10, 11, ... 16 bytes."""
    index = Index()
    for number, (first_id, count) in enumerate(blocks, 1):
        segment = index.segments[number] = Segment(number, first_id, 0)
        block = Block(number, first_id)
        index.add(block)
        for id_ in range(first_id, first_id + count):
            block.add(id_, 24 + 20 * (id_ - first_id), 10 + id_ % 7)
            index.enter(number << OFFSET_BITS | 24, 10 + id_ % 7)
        assert segment.live == count
    return index


def block_of(index: Index, id_: int) -> Block:
    block = index.find(id_)
    assert block is not None
    return block


def some_ids(random: Random) -> list[int]:
    count = random.choice((1, 2, 7, 8, 9, 100, 700))
    start = FIRST_ID + random.randrange(2 * MESSAGES - count)
    ids = list(range(start, start + count))
    if random.random() < 0.5:
        ids = random.sample(ids, random.randint(1, count))
    return ids


@pytest.mark.parametrize("seed", range(20))
def test_many_are_settled_as_one_by_one(seed: int) -> None:
    random = Random(seed)
    single, many = [index_of((FIRST_ID, MESSAGES), (SECOND_BLOCK, MESSAGES)) for _ in range(2)]
    if seed % 4 == 0:
        for index in (single, many):
            block_of(index, FIRST_ID).share(FIRST_ID + 500, 100, [1, 2])
            block_of(index, FIRST_ID).record_attempts(1, FIRST_ID + 10, 3)
            index.move(SECOND_BLOCK + 5, 1 << OFFSET_BITS | 99, 7)
    for _ in range(40):
        ids, queue = some_ids(random), random.choice((1, 2))
        for id_ in ids:
            single.settle(queue, id_)
        many.settle_many(queue, ids)
        for number in (1, 2):
            one, other = single.segments[number], many.segments[number]
            assert (one.live, one.live_bytes) == (other.live, other.live_bytes)
    for number, (one, other) in enumerate(zip(single, many, strict=True), 1):
        assert list(one.live_ids()) == list(other.live_ids()) and one.attempts == other.attempts
        places = [block.place(id_) for block in many for id_ in block.live_ids()]
        sizes = [size for place, size in places if place >> OFFSET_BITS == number]
        assert (many.segments[number].live, many.segments[number].live_bytes) == (len(sizes), sum(sizes))


@pytest.mark.parametrize("ids", [[FIRST_ID + 9], [FIRST_ID + 9, FIRST_ID + 10], [FIRST_ID + 40, FIRST_ID + 9]])
def test_a_lent_state_does_not_change(ids: list[int]) -> None:
    index = index_of((FIRST_ID, MESSAGES))
    block = block_of(index, FIRST_ID)
    index.settle(1, FIRST_ID + 8)
    lent = block.lend()
    before = bytes(lent.dead)
    index.settle_many(1, ids)
    assert bytes(lent.dead) == before
    assert all(map(block.is_dead, ids))


def test_a_block_outlives_its_segment_as_long_as_a_message_of_it_is_live() -> None:
    index = index_of((FIRST_ID, 3), (FIRST_ID + 3, 1), (FIRST_ID + 4, 2))
    index.move(FIRST_ID + 1, 3 << OFFSET_BITS | 500, 12)
    for id_ in (FIRST_ID, FIRST_ID + 2, FIRST_ID + 3):
        index.settle(1, id_)
    first, second = index.segments[1], index.segments[2]
    assert (first.live, first.live_bytes, second.live) == (0, 0, 0) and index.segments[3].live == 3
    for segment in (first, second):
        index.remove(segment)
    assert [block.first_id for block in index] == [FIRST_ID, FIRST_ID + 4]
    assert index.place(FIRST_ID + 1) == 3 << OFFSET_BITS | 500 and not index.place(FIRST_ID)
    assert index.find(FIRST_ID + 3) is None
    index.settle(1, FIRST_ID + 1)
    index.settle(1, FIRST_ID + 1)
    assert [block.first_id for block in index] == [FIRST_ID + 4] and index.segments[3].live == 2


def test_a_message_is_found_in_any_order_with_holes_between_blocks() -> None:
    index = index_of((10, 5), (20, 5), (40, 1))
    found = {id_: block.first_id for id_ in Random(1).sample(range(50), 50) if (block := index.find(id_)) is not None}
    assert found == {**dict.fromkeys(range(10, 15), 10), **dict.fromkeys(range(20, 25), 20), 40: 40}
