"""The index: settling many messages at once is the same as settling each of them, and live bytes add up."""

from array import array
from random import Random

import pytest

from warren.broker.storage.checkpoint import PartState
from warren.broker.storage.index import Block, Index, Part
from warren.broker.storage.segment import OFFSET_BITS, Segment

FIRST_ID = 1001
MESSAGES = 3000
SECOND_BLOCK = FIRST_ID + MESSAGES


def index_of(*blocks: tuple[int, int]) -> Index:
    """Return an index with blocks (first id, count) of messages of 10, 11, ... 16 bytes."""
    index = Index()
    for number, (first_id, count) in enumerate(blocks, 1):
        segment = index.segments[number] = Segment(number, first_id, 0)
        block, part = Block(first_id, count), Part(number, first_id)
        block.parts.append(part)
        index.add(block)
        for id_ in range(first_id, first_id + count):
            index.enter(part, part.add(id_, 24 + 20 * (id_ - first_id), 10 + id_ % 7))
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
            block_of(index, FIRST_ID).parts[0].share(500, 100, [1, 2])
            block_of(index, FIRST_ID).record_attempts(1, FIRST_ID + 10, 3)
            for id_ in (SECOND_BLOCK + 5, SECOND_BLOCK + 900):
                index.copied(id_, 1, 60_000 + id_, 7)
            if seed % 8 == 0:  # there are copies only
                del block_of(index, SECOND_BLOCK).parts[0]
                index.segments[2].live = index.segments[2].live_bytes = 0
    for _ in range(40):
        ids, queue = some_ids(random), random.choice((1, 2))
        for id_ in ids:
            single.settle(queue, id_)
        many.settle_many(queue, ids)
        for number in (1, 2):
            one, other = single.segments[number], many.segments[number]
            assert (one.live, one.live_bytes) == (other.live, other.live_bytes)
    everything = range(FIRST_ID, SECOND_BLOCK + MESSAGES)
    places = [many.place(id_) for id_ in everything]
    assert places == [single.place(id_) for id_ in everything]
    assert [block.attempts for block in many] == [block.attempts for block in single]
    for number in (1, 2):
        parts = [part for block in many for part in block.parts if part.number == number]
        sizes = [part.sizes[at] for part in parts for at in part.live_positions()]
        assert (many.segments[number].live, many.segments[number].live_bytes) == (len(sizes), sum(sizes))
        assert many.segments[number].live == sum(place >> OFFSET_BITS == number for place in places)


@pytest.mark.parametrize("ids", [[FIRST_ID + 9], [FIRST_ID + 9, FIRST_ID + 10], [FIRST_ID + 40, FIRST_ID + 9]])
def test_a_lent_state_does_not_change(ids: list[int]) -> None:
    index = index_of((FIRST_ID, MESSAGES), (SECOND_BLOCK, 1))
    index.copied(FIRST_ID + 7, 2, 500, 12)
    index.settle(1, FIRST_ID + 8)
    block = block_of(index, FIRST_ID)
    lent = block.lend()
    before = [(bytes(part.dead), list(part.ids or ())) for part in lent.parts]

    def after() -> list[tuple[bytes, list[int]]]:
        return [(bytes(part.dead), list(part.ids or ())[: part.size]) for part in lent.parts]

    index.settle_many(1, ids)
    index.copied(FIRST_ID + 100, 2, 600, 12)
    index.settle(1, FIRST_ID + 7)
    block.record_attempts(1, FIRST_ID + 100, 1)
    assert after() == before and not lent.attempts
    assert not any(map(index.place, [*ids, FIRST_ID + 7])) and index.place(FIRST_ID + 100)


def test_a_block_outlives_its_segment_as_long_as_a_message_of_it_is_in_another_one() -> None:
    index = index_of((FIRST_ID, 3), (FIRST_ID + 3, 1), (FIRST_ID + 4, 2))
    index.copied(FIRST_ID + 1, 3, 500, 12)
    for id_ in (FIRST_ID, FIRST_ID + 2, FIRST_ID + 3):
        index.settle(1, id_)
    first, second = index.segments[1], index.segments[2]
    assert (first.live, first.live_bytes, second.live) == (0, 0, 0) and index.segments[3].live == 3
    for segment in (first, second):
        index.remove(segment)
    assert [block.first_id for block in index] == [FIRST_ID, FIRST_ID + 4]
    assert index.place(FIRST_ID + 1) == 3 << OFFSET_BITS | 500 and not index.place(FIRST_ID)
    assert index.find(FIRST_ID + 3) is None
    for _ in range(2):
        index.settle(1, FIRST_ID + 1)
    assert index.segments[3].live == 2
    index.remove(index.segments[3])
    assert not list(index)


def test_a_copy_of_a_message_of_several_queues_is_wanted_by_those_that_have_not_settled_it() -> None:
    index = index_of((FIRST_ID, 3), (FIRST_ID + 3, 1))
    block_of(index, FIRST_ID).parts[0].share(1, 1, [5, 6, 7])
    index.settle(6, FIRST_ID + 1)
    index.copied(FIRST_ID + 1, 2, 500, 12)
    part, at = index.locate(FIRST_ID + 1)
    assert part is not None and part.wanting(at) == [5, 7]
    for queue in (5, 6, 7):
        assert index.place(FIRST_ID + 1)
        index.settle(queue, FIRST_ID + 1)
    assert not index.place(FIRST_ID + 1)


def test_a_message_is_found_in_any_order_with_holes_between_blocks() -> None:
    index = index_of((10, 5), (20, 5), (40, 1))
    found = {id_: block.first_id for id_ in Random(1).sample(range(50), 50) if (block := index.find(id_)) is not None}
    assert found == {**dict.fromkeys(range(10, 15), 10), **dict.fromkeys(range(20, 25), 20), 40: 40}


def test_the_block_of_a_copy_that_none_has_is_that_before_if_its_segment_is_there_or_a_new_one() -> None:
    index = index_of((10, 5), (40, 5))
    before = block_of(index, 14)
    assert index.missing(20, 100) is before and before.end_id == 40
    index = index_of((10, 5), (40, 5))
    before = block_of(index, 14)
    before.parts = [Part(2, 10, array("Q", [12]))]
    made = index.missing(20, 100)
    assert (made.first_id, made.end_id) == (15, 40) and index.find(39) is made
    first = index.missing(3, 100)
    assert (first.first_id, first.end_id) == (0, 10)


def test_a_state_says_which_messages_were_live() -> None:
    first = PartState(1, None, 10, b"\x02", None)
    copies = PartState(2, array("Q", [12, 15]), 2, b"\x02", None)
    assert [id_ for id_ in range(10, 25) if first.has_live(id_, 10)] == [10, *range(12, 20)]
    assert [id_ for id_ in range(10, 25) if copies.has_live(id_, 10)] == [12]


def test_a_message_of_no_queue_is_kept_until_all_that_hold_it_have_let_it_go() -> None:
    index = index_of((FIRST_ID, 10), (FIRST_ID + 10, 10))
    ids = [FIRST_ID + 3, FIRST_ID + 9, FIRST_ID + 10]
    for id_ in ids:
        assert not index.let_go(id_), "nobody else holds it"
        assert index.hold(id_) and index.hold(id_)
    index.copied(ids[1], 2, 60_000, 7)
    for id_ in ids:
        assert index.let_go(id_) and index.let_go(id_) and not index.let_go(id_)
        assert index.place(id_)
        index.settle(0, id_)
        assert not index.place(id_) and not index.hold(id_) and not index.let_go(id_)
    assert not index.hold(FIRST_ID + 20) and not index.let_go(FIRST_ID + 20) and not index.hold(1)
    assert (index.segments[1].live, index.segments[2].live) == (8, 9)
