"""Settling many messages of a segment at once is the same as settling each of them."""

from __future__ import annotations

from random import Random

import pytest

from warren.broker.storage.segment import Segment

FIRST_ID = 1001
MESSAGES = 3000


def full_segment() -> Segment:
    segment = Segment(1, FIRST_ID, 0)
    segment.live = segment.total = MESSAGES
    return segment


def some_ids(random: Random) -> list[int]:
    count = random.choice((1, 2, 7, 8, 9, 100, 700))
    start = FIRST_ID + random.randrange(MESSAGES - count)
    ids = list(range(start, start + count))
    if random.random() < 0.5:
        ids = random.sample(ids, random.randint(1, count))
    return ids


@pytest.mark.parametrize("seed", range(20))
def test_many_are_settled_as_one_by_one(seed: int) -> None:
    random = Random(seed)
    single, many = full_segment(), full_segment()
    if seed % 4 == 0:
        for segment in (single, many):
            segment.share(FIRST_ID + 500, 100, [1, 2])
            segment.count(1, FIRST_ID + 10, 3)
    for _ in range(40):
        ids, queue = some_ids(random), random.choice((1, 2))
        for id_ in ids:
            single.settle(queue, id_)
        many.settle_many(queue, ids)
        assert many.live == single.live
    everything = range(FIRST_ID, FIRST_ID + MESSAGES)
    assert [many.is_dead(id_) for id_ in everything] == [single.is_dead(id_) for id_ in everything]
    assert many.live == sum(not many.is_dead(id_) for id_ in everything)
    assert many.attempts == single.attempts


@pytest.mark.parametrize("ids", [[FIRST_ID + 9], [FIRST_ID + 9, FIRST_ID + 10], [FIRST_ID + 40, FIRST_ID + 9]])
def test_a_lent_state_does_not_change(ids: list[int]) -> None:
    segment = full_segment()
    segment.settle(1, FIRST_ID + 8)
    lent = segment.lend()
    before = bytes(lent.dead)
    segment.settle_many(1, ids)
    assert bytes(lent.dead) == before
    assert all(map(segment.is_dead, ids))
