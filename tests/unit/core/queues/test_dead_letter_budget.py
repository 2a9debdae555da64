"""Limits of the dead letters of the node and of a user, and who goes on when there are fewer."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.clock import FakeClock
from tests.support.queues import limit_dead_letters
from tests.support.session import connected, new_node
from warren.broker.core.queues import dead_letter_budget
from warren.broker.core.queues.dead_letter_budget import ALL_BYTES, USER_BYTES, WOKEN, DeadLetterBudget


class Budget:
    """A budget, and those that it has called since the last look."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.ledger = DeadLetterBudget()
        self._called: list[str] = []

    def add(self, account: str, count: int, loose: bool = True) -> None:
        self.ledger.add(account, count, count * loose, self.clock)

    def wait(self, account: str, count: int = 1) -> None:
        for _ in range(count):
            self.ledger.when_fewer(account, partial(self._called.append, account))

    def called(self) -> list[str]:
        called = self._called.copy()
        self._called.clear()
        return called


def test_it_is_full_for_a_user_with_many_loose_bytes_while_the_node_has_too_many() -> None:
    each = Budget()
    each.add("many", USER_BYTES + 1)
    each.add("few", USER_BYTES)
    each.add("waits for targets", ALL_BYTES - 2 * USER_BYTES - 2, loose=False)
    assert not each.ledger.is_full("many") and not each.ledger.full_outboxes
    each.add("waits for targets", 1, loose=False)
    assert [each.ledger.is_full(name) for name in ("many", "few", "waits for targets")] == [True, False, False]
    assert each.ledger.full_outboxes == 1
    each.add("", 2 * USER_BYTES)
    assert not each.ledger.is_full(""), "queues whose users are not known share no bound"
    each.add("", -2 * USER_BYTES)
    each.add("few", -1)
    assert not each.ledger.is_full("many") and not each.ledger.full_outboxes and each.ledger.has_many_loose("many")


@pytest.mark.parametrize("falls", ["of the node", "of the user"])
def test_who_waits_is_called_some_at_a_time_and_only_for_a_user_for_whom_there_is_room(falls: str) -> None:
    each = Budget()
    for account in ("one", "two"):
        each.add(account, ALL_BYTES)
        each.wait(account, 3 * WOKEN)
    each.add("one", -1)
    each.clock.advance(1_000)
    assert not each.called()
    if falls == "of the node":
        for account in ("one", "two"):
            each.add(account, -ALL_BYTES + USER_BYTES)
        assert len(each.called()) == WOKEN
        each.clock.advance(1)
        assert sorted(each.called()) == sorted([*["one"] * 2 * WOKEN, *["two"] * 3 * WOKEN])
    else:
        each.add("one", -ALL_BYTES + USER_BYTES)
        for _ in range(50):
            each.add("one", -1)
        assert each.called() == ["one"] * WOKEN, "all these calls are in one turn"
        each.clock.advance(1)
        assert each.called() == ["one"] * 2 * WOKEN
    assert not each.clock._timers or all(timer.cancelled for timer in each.clock._timers)


def test_who_waits_again_when_called_and_whose_user_has_many_again_is_called_later() -> None:
    each = Budget()
    each.add("one", ALL_BYTES)

    def fill() -> None:
        each.add("one", ALL_BYTES)
        each.ledger.when_fewer("one", fill)

    each.ledger.when_fewer("one", fill)
    each.wait("one", WOKEN)
    for _ in range(3):
        each.add("one", -ALL_BYTES)
        each.clock.advance(1)
        assert each.ledger.is_full("one")
    assert len(each.called()) == WOKEN


def test_deleted_queues_that_were_held_back_are_forgotten_and_others_pumped_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit_dead_letters(monkeypatch, ALL_BYTES=1, USER_BYTES=0)
    node = new_node()
    ch = connected(node).channel()
    budget, waiting = node.ledger.dead_letters, node.ledger.dead_letters._waiting
    clock = node.clock
    assert isinstance(clock, FakeClock)
    budget.add("guest", 1, 1, clock)
    held = {"x-max-length": 1, "x-dead-letter-exchange": "amq.fanout"}
    ch.declare("no letters", arguments={"x-max-length": 1})
    for number in range(3 * WOKEN):
        ch.declare(f"queue{number}", arguments=held)
    for name in ("no letters", *(f"queue{number}" for number in range(3 * WOKEN))):
        ch.fill(name, b"1", b"2")
    assert ch.count("no letters") == 1 and ch.count("queue0") == 2
    assert [len(functions) for functions in waiting.values()] == [3 * WOKEN]
    for number in range(WOKEN):
        ch.delete(f"queue{number}")
    assert [len(functions) for functions in waiting.values()] == [2 * WOKEN]
    clock.advance(60_000)
    assert ch.count(f"queue{WOKEN}") == 2 and not [timer for timer in clock._timers if not timer.cancelled]
    budget.add("guest", -1, -1, clock)
    node.pump()
    ready = [node.vhosts["/"].queues[f"queue{number}"].ready for number in range(WOKEN, 3 * WOKEN)]
    assert ready == [*[1] * WOKEN, *[2] * WOKEN] and dead_letter_budget.WOKEN == WOKEN
    clock.advance(1)
    node.pump()
    assert ch.count(f"queue{3 * WOKEN - 1}") == 1 and not waiting
