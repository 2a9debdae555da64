"""What a link has taken and not settled: the tags to acknowledge and to return."""

import random

import pytest

from federation.window import Window


@pytest.fixture
def window() -> Window:
    return Window()


def took(window: Window, first: int, last: int) -> None:
    for tag in range(first, last + 1):
        window.took(tag)


def test_what_is_safe_is_acknowledged_in_one(window: Window) -> None:
    took(window, 1, 3)
    window.committed(7)
    took(window, 4, 5)
    window.committed(8)
    assert window.outstanding == 5
    assert window.settled(6) == 0
    assert window.settled(7) == 3
    assert window.settled(7) == 0, "it is only told once"
    assert window.settled(9) == 5
    assert window.outstanding == 0


def test_what_needs_no_disk_waits_for_what_came_before_it(window: Window) -> None:
    window.took(1)
    window.committed(7)
    window.took(2)
    window.committed(0)
    assert window.settled(6) == 0
    assert window.settled(7) == 2
    window.took(3)
    window.committed(0)
    assert window.settled(7) == 3


def test_what_is_not_published_yet_is_not_acknowledged(window: Window) -> None:
    took(window, 1, 2)
    window.committed(0)
    window.took(3)
    assert window.settled(0) == 2
    assert window.outstanding == 1


def test_048_what_was_refused_holds_back_all_behind_it_until_it_is_returned(window: Window) -> None:
    took(window, 1, 6)
    window.committed(0, [3, 6])
    assert window.refusing
    assert window.settled(0) == 2
    assert window.settled(0) == 0
    assert window.returning() == [3, 6]
    assert not window.refusing and window.outstanding == 2
    assert window.settled(0) == 5, "the tag is of one that is still out"
    assert window.outstanding == 0
    took(window, 7, 7)
    window.committed(0)
    assert window.settled(0) == 7


def test_where_all_is_refused_nothing_is_acknowledged(window: Window) -> None:
    took(window, 1, 2)
    window.committed(0, [1, 2])
    assert window.settled(0) == 0
    assert window.returning() == [1, 2]
    assert window.settled(0) == 0 and window.outstanding == 0


def test_another_channel_begins_anew(window: Window) -> None:
    took(window, 1, 5)
    window.committed(9, [2])
    window.clear()
    assert (window.outstanding, window.refusing) == (0, False)
    took(window, 1, 1)
    window.committed(0)
    assert window.settled(0) == 1


def test_with_any_order_of_events_each_delivery_is_settled_once() -> None:
    dice = random.Random(3)
    for _ in range(300):
        window, ticket, durable, tag = Window(), 0, 0, 0
        out: set[int] = set()
        waits: dict[int, int] = {}  # tag -> its ticket
        refused: set[int] = set()
        for _ in range(60):
            event = dice.randrange(4)
            if event == 0:
                new = list(range(tag + 1, tag + 1 + dice.randrange(4)))
                for tag in new:
                    window.took(tag)
                    out.add(tag)
                ticket += dice.randrange(2)
                unwanted = [each for each in new if dice.random() < 0.2]
                refused.update(unwanted)
                needed = ticket if dice.random() < 0.7 else 0
                waits |= dict.fromkeys(new, needed)
                window.committed(needed, unwanted)
            elif event == 1:
                durable = dice.randint(durable, ticket)
            elif event == 2:
                upto = window.settled(durable)
                if upto:
                    assert upto in out, "a broker closes the channel for a tag that is not out"
                    acknowledged = {each for each in out if each <= upto}
                    assert not acknowledged & refused
                    assert all(waits[each] <= durable for each in acknowledged)
                    out -= acknowledged
            else:
                for each in window.returning():
                    out.remove(each)
                    refused.discard(each)
            assert window.outstanding == len(out)
        window.returning()
        last = window.settled(ticket)
        assert {each for each in out if each > last} <= refused
