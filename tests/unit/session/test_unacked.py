"""The collection of unsettled deliveries by itself."""

import pytest

from tests.support.queues import message, new_queue
from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.session.unacked import MANY, Settlement, Unacked, UnackedDeliveries

QUEUE, MESSAGE = new_queue(), message()


def outstanding(*tags: int) -> UnackedDeliveries:
    unacked = UnackedDeliveries()
    for tag in tags:
        unacked.add(tag, delivery(tag))
    return unacked


def delivery(tag: int) -> Unacked:
    return QUEUE, None, tag, MESSAGE


def test_tags_up_to_one_are_those_outstanding_in_their_order() -> None:
    unacked = outstanding(1, 3, 4, 9)
    assert unacked.tags_up_to(4) == [1, 3, 4]
    assert unacked.tags_up_to(9) == unacked.tags_up_to(0) == [1, 3, 4, 9]


def test_a_gap_wider_than_is_tried_tag_by_tag() -> None:
    unacked = outstanding(1, 2, 1_000_000, 1_000_001)
    assert unacked.tags_up_to(1_000_000) == [1, 2, 1_000_000]


@pytest.mark.parametrize("tag", [2, 5])
def test_a_tag_that_is_not_outstanding_is_an_error(tag: int) -> None:
    unacked = outstanding(1, 3)
    for fails in (unacked.tags_up_to, unacked.pop, lambda one: unacked.pop_many([one])):
        with pytest.raises(PreconditionFailed, match=f"unknown delivery tag {tag}"):
            fails(tag)
    assert unacked.tags() == [1, 3]


@pytest.mark.parametrize("count", [3, MANY + 1])
def test_all_are_removed_together(count: int) -> None:
    unacked = outstanding(*range(1, count + 1))
    assert unacked.pop_many(unacked.tags()) == [delivery(tag) for tag in range(1, count + 1)]
    assert not unacked


def test_what_is_put_back_has_its_place_again() -> None:
    unacked = outstanding(1, 2, 3, 4)
    assert unacked.tags_up_to(2) == [1, 2]
    removed = [(tag, unacked.pop(tag)) for tag in (1, 2)]
    for _ in unacked.put_back(removed[::-1]):
        pass
    assert unacked.tags() == [1, 2, 3, 4] and unacked.oldest() == (1, delivery(1))
    assert unacked.tags_up_to(3) == [1, 2, 3]


def test_only_two_settlements_requeue() -> None:
    assert [one for one in Settlement if one.requeues] == [Settlement.NACK, Settlement.RETURN]
