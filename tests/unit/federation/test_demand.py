"""Demand: when a queue link consumes and when it pauses."""

import pytest

from warren.federation.demand import LINGER_MS, Demand, prefetch_for


def holds(demand: Demand) -> bool:
    """Whether the link withholds acknowledgements."""
    return demand.running and not demand.wants


@pytest.fixture
def demand() -> Demand:
    return Demand()


def test_it_runs_when_the_queue_is_empty_and_somebody_wants_more(demand: Demand) -> None:
    assert demand.update(0, 0, None) is None
    assert demand.reason == "no consumer here can take more"
    assert demand.update(0, 0, 0, 5) == "run"
    assert demand.update(0, 0, 0, 5) is None
    assert (demand.running, holds(demand), demand.reason) == (True, False, "")


def test_it_waits_until_the_queue_is_drained(demand: Demand) -> None:
    assert demand.update(0, 3, 0, 5) is None
    assert demand.reason == "messages wait in the queue here"
    assert demand.update(0, 0, 0, 5) == "run"


def test_consumers_of_a_negative_priority_want_nothing(demand: Demand) -> None:
    assert demand.update(0, 0, -5, 10) is None
    assert demand.reason == "only consumers of a negative priority here"
    assert demand.update(0, 0, 7, 10) == "run"


def test_it_holds_for_a_while_before_it_pauses(demand: Demand) -> None:
    demand.update(0, 0, 0, 1)
    assert demand.update(10, 1, None) is None
    assert holds(demand) and demand.check_at_ms == 10 + LINGER_MS
    assert demand.update(9 + LINGER_MS, 1, None) is None
    assert demand.update(10 + LINGER_MS, 1, None) == "pause"
    assert not demand.running and not holds(demand) and demand.check_at_ms is None


def test_a_consumer_that_takes_one_at_a_time_does_not_make_it_pause(demand: Demand) -> None:
    steps = []
    for now_ms in range(0, 10_000, 10):
        busy = now_ms // 10 % 2
        steps.append(demand.update(now_ms, busy, None if busy else 0, 1))
    assert [step for step in steps if step] == ["run"]


def test_where_nobody_is_left_it_pauses_at_once(demand: Demand) -> None:
    demand.update(0, 0, 0, 1)
    assert demand.update(10, 1, None, 1) is None
    assert demand.update(20, 1, None, 0) == "pause"
    assert demand.update(30, 0, 0, 1) == "run"
    assert demand.update(40, 0, None, 0) == "pause"


def test_without_acknowledgements_to_withhold_it_pauses_at_once() -> None:
    demand = Demand(0)
    assert demand.update(0, 0, 0, 1) == "run"
    assert demand.update(10, 1, None, 1) == "pause"
    assert not holds(demand)


def test_it_consumes_and_cancels_three_times_a_second_at_most(demand: Demand) -> None:
    steps = []
    for now_ms in range(0, 10_000, 10):
        wanted = now_ms % (LINGER_MS + 10) == 0
        steps.append(demand.update(now_ms, 0, 0 if wanted else None, 1))
    assert steps.count("run") <= 34


def test_a_new_connection_begins_anew(demand: Demand) -> None:
    demand.update(0, 0, 0, 1)
    demand.update(1, 1, None)
    assert holds(demand)
    demand.reset()
    assert not demand.running and not holds(demand) and demand.check_at_ms is None
    assert demand.update(1, 0, 0, 1) == "run"


def test_no_more_is_pulled_than_consumers_have_room_for() -> None:
    assert prefetch_for(1000, None) == 1000
    assert prefetch_for(1000, 200) == 400
    assert prefetch_for(1000, 900) == 1000
    assert prefetch_for(1000, 1) == 10, "the way there and back would count for each message"
    assert prefetch_for(5, 1) == 5
    assert prefetch_for(0, 200) == 400
    assert prefetch_for(0, 1 << 20) == 65_535, "the largest value in basic.qos"
    assert prefetch_for(0, 200) == 400, "no prefetch is no limit"
