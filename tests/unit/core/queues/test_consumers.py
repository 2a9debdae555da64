"""Whose turn it is."""

import pytest

from warren.broker.core.queues.consumers import Consumer, Consumers, SingleActiveConsumers


class Guest(Consumer):
    def __init__(
        self, tag: str, credit: int = 100, priority: int = 0, exclusive: bool = False, shares: bool = False
    ) -> None:
        super().__init__(tag, None, None, False, exclusive, priority)  # type: ignore[arg-type]
        self.credit = credit
        self.shares = shares
        self.asked = 0

    def room(self, body_bytes: int) -> int:
        self.asked += 1
        return self.credit


def turn(consumers: Consumers, wanted: int) -> tuple[str, int]:
    takers, room = consumers.take_turn(wanted, 0)
    return "".join(taker.tag for taker in takers), room


def party(*guests: Guest) -> Consumers:
    consumers = Consumers()
    for guest in guests:
        consumers.add(guest)
    return consumers


def test_the_turn_goes_round() -> None:
    consumers = party(Guest("a"), Guest("b"), Guest("c"))
    assert [turn(consumers, 2)[0] for _ in range(3)] == ["ab", "ca", "bc"]


def test_nobody_can_take_more_than_the_one_with_the_least_room() -> None:
    assert turn(party(Guest("a", 5), Guest("b", 3), Guest("c", 9)), 100) == ("abc", 3)


def test_the_one_after_the_last_served_is_first() -> None:
    consumers = party(Guest("a"), Guest("b"), Guest("c"))
    takers, _ = consumers.take_turn(100, 0)
    consumers.rotate(takers, 7)
    assert turn(consumers, 3)[0] == "bca"


def test_who_was_left_out_comes_before_those_who_were_not_asked() -> None:
    consumers = party(Guest("a"), Guest("b"), Guest("c"), Guest("d"))
    takers, _ = consumers.take_turn(3, 0)
    consumers.rotate(takers, 1)
    assert turn(consumers, 4)[0] == "bcda"


def test_who_has_no_room_is_not_asked_again_before_it_wakes() -> None:
    full = Guest("a", 0)
    consumers = party(full, Guest("b"))
    for _ in range(3):
        assert turn(consumers, 1)[0] == "b"
    assert full.waiting and full.asked == 1
    consumers.wake(full)
    full.credit = 1
    assert turn(consumers, 2) == ("ba", 1)


def test_waking_who_does_not_wait_gives_no_second_turn() -> None:
    guest = Guest("a")
    consumers = party(guest)
    consumers.wake(guest)
    assert turn(consumers, 5)[0] == "a"


def test_the_highest_priority_with_room_is_served_alone() -> None:
    high, low = Guest("h", 1, priority=9), Guest("l", priority=-1)
    consumers = party(low, high, Guest("n"))
    assert turn(consumers, 5) == ("h", 1)
    high.credit = 0
    assert turn(consumers, 5)[0] == "n"
    assert low.asked == 0
    consumers.wake(high)
    high.credit = 2
    assert turn(consumers, 5) == ("h", 2)


def test_who_shares_its_room_is_taken_alone() -> None:
    consumers = party(Guest("a"), Guest("b", shares=True), Guest("c", shares=True), Guest("d"))
    assert [turn(consumers, 9)[0] for _ in range(4)] == ["a", "b", "c", "da"]


@pytest.mark.parametrize("waits", [False, True])
def test_who_is_removed_is_gone_from_its_turn(waits: bool) -> None:
    guest = Guest("a", 0 if waits else 1, priority=3)
    consumers = party(guest, Guest("b"))
    turn(consumers, 1)
    assert guest.waiting == waits
    assert consumers.remove(guest) and not consumers.remove(guest)
    consumers.wake(guest)
    assert not guest.waiting and len(consumers) == 1
    assert turn(consumers, 2)[0] == "b"


def test_a_priority_goes_with_its_last_consumer_and_comes_back() -> None:
    first, second = Guest("a", priority=7), Guest("b", priority=7)
    consumers = party(first, second)
    consumers.remove(first)
    assert turn(consumers, 1)[0] == "b"
    consumers.remove(second)
    assert turn(consumers, 1) == ("", 0)
    consumers.add(first)
    assert turn(consumers, 1)[0] == "a"


def test_an_exclusive_consumer_is_one_until_it_goes() -> None:
    guest = Guest("a", exclusive=True)
    consumers = party(guest)
    assert consumers.exclusive
    consumers.remove(guest)
    assert not consumers.exclusive and consumers.all() == []


def single(*guests: Guest, preempts: bool = False) -> SingleActiveConsumers:
    consumers = SingleActiveConsumers(preempts)
    for guest in guests:
        consumers.add(guest)
    return consumers


def test_a_single_active_consumer_is_served_until_it_goes() -> None:
    first, second = Guest("a"), Guest("b")
    consumers = single(first, second)
    assert [turn(consumers, 5) for _ in range(2)] == [("a", 100)] * 2
    consumers.remove(first)
    assert turn(consumers, 5) == ("b", 100)
    consumers.remove(second)
    assert turn(consumers, 5) == ("", 0) and not consumers.any_ready()


def test_the_next_active_consumer_has_the_highest_priority_and_came_first() -> None:
    first = Guest("a")
    consumers = single(first, Guest("b"), Guest("c", priority=1), Guest("d", priority=1))
    assert turn(consumers, 1)[0] == "a", "a higher priority alone does not make active"
    consumers.remove(first)
    assert turn(consumers, 1)[0] == "c"


def test_while_the_active_consumer_is_full_nobody_is_served() -> None:
    first = Guest("a", credit=0)
    consumers = single(first, Guest("b"))
    assert turn(consumers, 1) == ("", 0) and first.waiting and not consumers.any_ready()
    first.credit = 2
    consumers.wake(first)
    assert turn(consumers, 1) == ("a", 2)


def test_where_priorities_preempt_the_active_consumer_first_settles_what_it_has() -> None:
    first = Guest("a")
    first.unacked = 1
    consumers = single(first, Guest("b"), Guest("c", priority=1), preempts=True)
    assert turn(consumers, 1) == ("", 0)
    first.unacked = 0
    consumers.wake(first)
    assert turn(consumers, 1)[0] == "c"
    consumers.remove(first)
    assert turn(consumers, 1)[0] == "c"


def test_who_gave_way_to_one_that_left_again_is_served_as_before() -> None:
    first, second = Guest("a"), Guest("b", priority=1)
    first.unacked = 1
    consumers = single(first, second, preempts=True)
    assert turn(consumers, 1) == ("", 0)
    consumers.remove(second)
    assert turn(consumers, 1) == ("a", 100)
