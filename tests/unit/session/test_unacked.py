"""The collection of unsettled deliveries by itself."""

from typing import Any

import pytest

from tests.support.queues import message, new_queue
from warren.broker.amqp.errors import PreconditionFailed
from warren.broker.core.jobs.scheduler import SLICE
from warren.broker.session.unacked import LOOKUP_SHIFT, SPAN, Settlement, Unacked, UnackedDeliveries

QUEUE, MESSAGE = new_queue(), message()


class SingleEntries(dict[int, Any]):
    """Entries that are found by their tags alone."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("all entries are looked at")

    __iter__ = __reversed__ = items = values = keys = _refuse  # type: ignore[assignment]


def outstanding(*tags: int) -> UnackedDeliveries:
    unacked = UnackedDeliveries()
    for tag in tags:
        unacked.add(tag, delivery(tag))
    return unacked


def delivery(tag: int) -> Unacked:
    return QUEUE, None, tag, MESSAGE


def up_to(unacked: UnackedDeliveries, tag: int) -> list[int]:
    return [one for one in unacked.candidates_up_to(tag)[0] if one in unacked.entries]


def test_candidates_up_to_a_tag_have_those_outstanding_in_their_order() -> None:
    assert up_to(outstanding(1, 3, 4, 9), 4) == [1, 3, 4]
    assert up_to(outstanding(1, 3, 4, 9), 9) == [1, 3, 4, 9]


def test_candidates_are_looked_for_from_the_last_ones_on() -> None:
    unacked = outstanding(1, 3, 4, 9)
    assert list(unacked.candidates_up_to(4)[0]) == [1, 2, 3, 4]
    assert list(unacked.candidates_up_to(9)[0]) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("left", [1, 3])
def test_those_that_are_left_are_found_without_a_look_at_removed_ones(left: int) -> None:
    """A dict takes the longer to find its first or last entry the more were removed there."""
    unacked = outstanding(*range(1, 1_001))
    unacked.pop_many([*range(1, 100), *range(100 + left, 1_001)])
    unacked.entries = SingleEntries(unacked.entries)
    for tag in range(100, 100 + left):
        assert up_to(unacked, tag)[-1] == tag


def test_a_gap_wider_than_is_tried_tag_by_tag() -> None:
    unacked = outstanding(1, 2, 1_000_000, 1_000_001)
    assert unacked.candidates_up_to(1_000_000) == ([1, 2, 1_000_000], SPAN >> LOOKUP_SHIFT)


@pytest.mark.parametrize("tag", [2, 5])
def test_a_tag_that_is_not_outstanding_is_an_error(tag: int) -> None:
    unacked = outstanding(1, 3)
    for fails in (unacked.check, unacked.pop):
        with pytest.raises(PreconditionFailed, match=f"unknown delivery tag {tag}"):
            fails(tag)
    assert unacked.tags() == [1, 3]


def test_many_are_removed_together() -> None:
    unacked = outstanding(1, 2, 4)
    assert unacked.pop_many(range(1, 4)) == [delivery(1), delivery(2)]
    assert unacked.tags() == [4]
    assert unacked.take_all() == {4: delivery(4)} and not unacked


def test_what_is_put_back_has_its_place_again() -> None:
    unacked = outstanding(1, 2, 3, 4)
    assert up_to(unacked, 2) == [1, 2]
    removed = [(tag, unacked.pop(tag)) for tag in (1, 2)]
    for _ in unacked.put_back(removed[::-1], lambda: 4):
        pass
    assert unacked.tags() == [1, 2, 3, 4]
    assert up_to(unacked, 3) == [1, 2, 3]


def test_one_is_put_back_among_many_in_short_steps() -> None:
    unacked = outstanding(*range(1, 5_001))
    looks = 0

    class Counted(SingleEntries):
        def get(self, *arguments: Any) -> Any:
            nonlocal looks
            looks += 1
            return super().get(*arguments)

    unacked.entries = Counted(unacked.entries)
    for _ in unacked.put_back([(7, unacked.pop(7))], lambda: 5_000):
        assert looks <= 2 * SLICE
        looks = 0
    assert unacked.tags() == list(range(1, 5_001))


def test_deliveries_made_while_others_are_put_back_come_after_them() -> None:
    unacked, tags = outstanding(*range(1, 1_501)), list(range(1, 1_501))
    removed = [(tag, unacked.pop(tag)) for tag in range(1, 1_001, 2)]
    for _ in unacked.put_back(removed, lambda: tags[-1]):
        for tag in range(tags[-1] + 1, tags[-1] + 601) if len(tags) < 10_000 else ():
            tags.append(tag)
            unacked.add(tag, delivery(tag))
    assert len(tags) > 10_000 and unacked.tags() == tags


def test_only_two_settlements_requeue() -> None:
    assert [one for one in Settlement if one.requeues] == [Settlement.NACK, Settlement.RETURN]
