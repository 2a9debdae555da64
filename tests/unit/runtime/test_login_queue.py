"""The order in which passwords are verified, and the checks that are dropped. The test acts as the thread."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Any, cast

import pytest

from tests.support.clock import FakeClock, FakeLoop
from warren.broker.core.access.passwords import NOBODY
from warren.broker.runtime import login_queue
from warren.broker.runtime import password_hashing as hashing_module
from warren.broker.runtime.login_queue import (
    FAILED_DELAY_S,
    FAILED_TURN,
    FREE_FAILURES,
    NAME_LIMIT,
    PENDING_LIMIT,
    SOURCE_FREE_FAILURES,
    SOURCE_LIMIT,
    Check,
    LoginQueue,
    path_of,
)
from warren.broker.runtime.password_hashing import REFUSED_S, ThreadHashing


class Future:
    """The result of one check, once the test sets it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.callbacks: list[Callable[[Any], None]] = []
        self.outcome: Any = None

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.callbacks.append(callback)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> Any:
        return self.outcome if isinstance(self.outcome, Exception) else None

    def result(self) -> Any:
        return self.outcome


class Loop(FakeLoop):
    """A loop whose `checks` are those that the thread was given."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        super().__init__(self.clock)
        self.checks: list[Future] = []

    def run_in_executor(self, executor: object, work: Callable[[], Any]) -> Future:
        self.checks.append(Future(work))
        return self.checks[-1]


class Scene:
    """A ThreadHashing on such a loop; `answers` are names and results in order."""

    def __init__(self, refused_s: float = 0.0) -> None:
        self.loop = Loop()
        self.lines: list[str] = []
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        self.hashing = ThreadHashing(
            loop, lambda: None, lambda event, level, fields: self.lines.append(event), refused_s
        )
        self.answers: list[tuple[str, bool | None]] = []

    def ask(self, who: str, source: str, password: str = "", name: str = "guest") -> Callable[[], None]:
        def then(right: bool | None) -> None:
            self.answers.append((who, right))

        return self.hashing.verify(NOBODY, (password or who).encode(), then, name, source)

    def answer(self, outcome: object = False) -> None:
        """Finish the check that the thread was given last."""
        future = self.loop.checks[-1]
        future.outcome = outcome
        for callback in future.callbacks:
            callback(future)

    def answer_all(self, outcome: object = False) -> None:
        for _ in range(4 * PENDING_LIMIT):
            if len(self.loop.checks) and self.loop.checks[-1].outcome is None:
                self.answer(outcome)
            self.loop.clock.advance(round(FAILED_DELAY_S * 1000))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_sources_take_turns_however_many_one_of_them_asks(scene: Scene) -> None:
    for number in range(300):
        scene.ask(f"wrong {number}", "10.0.0.1")
    scene.ask("right", "10.0.0.2")
    refused = [answer for answer in scene.answers if answer[1] is None]
    assert len(refused) == 300 - NAME_LIMIT - 1, "one is being checked"
    scene.answers.clear()
    scene.answer()
    scene.answer(outcome=True)
    assert scene.answers == [("wrong 0", False), ("right", True)]


def test_the_same_source_comes_to_its_turn_as_well(scene: Scene) -> None:
    for number in range(NAME_LIMIT):
        scene.ask(f"wrong {number}", "10.0.0.1")
    scene.ask("right", "10.0.0.1")
    scene.answer_all()
    assert ("right", False) in scene.answers and len(scene.answers) == NAME_LIMIT + 1


def test_names_of_one_source_take_turns_and_the_delay_of_one_is_not_that_of_others(scene: Scene) -> None:
    """48 connections that guessed at one name once kept out all clients with their address."""
    for number in range(FREE_FAILURES + 1):
        scene.ask(f"early {number}", "10.0.0.1")
        scene.answer()
    for number in range(48):
        scene.ask(f"wrong {number}", "10.0.0.1")
    scene.answers.clear()
    scene.ask("new user", "10.0.0.1", name="alice")
    scene.answer(outcome=True)
    assert scene.answers == [("new user", True)]


def test_names_that_nobody_has_delay_a_source_too_and_leave_a_place_to_others(scene: Scene) -> None:
    for number in range(SOURCE_FREE_FAILURES + 1):
        scene.ask(f"early {number}", "10.0.0.1", name=f"early {number}")
        scene.answer()
    made = len(scene.loop.checks)
    for number in range(SOURCE_LIMIT - 1):
        scene.ask(f"wrong {number}", "10.0.0.1", name=f"name {number}")
    scene.ask("new user", "10.0.0.1", name="alice")
    assert len(scene.loop.checks) == made, "all names wait for the delay of their source"
    scene.answers.clear()
    scene.answer_all()
    assert ("new user", False) in scene.answers and len(scene.answers) == SOURCE_LIMIT


def test_addresses_of_one_ipv6_network_are_one_source(scene: Scene) -> None:
    for number in range(PENDING_LIMIT):
        scene.ask(f"wrong {number}", f"2001:db8::{number + 1:x}", name=f"name {number}")
    assert len([answer for answer in scene.answers if answer[1] is None]) == PENDING_LIMIT - SOURCE_LIMIT - 1
    scene.answers.clear()
    scene.ask("right", "2001:db8:1::1")
    scene.answer()
    scene.answer(outcome=True)
    assert scene.answers[-1] == ("right", True)


def test_where_too_many_wait_a_newcomer_takes_the_place_of_the_network_that_has_most(scene: Scene) -> None:
    for number in range(PENDING_LIMIT + 1):
        scene.ask(f"wrong {number}", f"10.0.{number % 100}.{number}")
    assert not scene.answers
    scene.ask("newcomer", "10.1.0.0")
    assert len(scene.answers) == 1 and scene.answers[0][1] is None
    scene.answer_all()
    assert ("newcomer", False) in scene.answers


def test_where_too_many_wait_those_that_failed_make_room_and_nobody_who_did_not(scene: Scene) -> None:
    scene.ask("failed", "10.9.0.1")
    scene.answer()
    scene.ask("first", "10.10.0.1")
    for number in range(3):
        scene.ask(f"failed {number}", "10.9.0.1")
    for number in range(2 * PENDING_LIMIT):
        scene.ask(f"{number}", f"10.{100 + number // 250}.{number % 250}.1")
    given_up = [who for who, answer in scene.answers if answer is None]
    assert sorted(given_up[:3]) == ["failed 0", "failed 1", "failed 2"]
    assert given_up[3:] == [f"{number}" for number in range(PENDING_LIMIT, 2 * PENDING_LIMIT)], "the newest themselves"
    answers = len(scene.answers)
    scene.answer_all()
    assert len(scene.answers) - answers == PENDING_LIMIT + 1


def test_a_right_password_gets_in_among_wrong_ones_from_many_thousand_addresses(scene: Scene) -> None:
    """Each wrong login comes from another address, and a refused one is repeated at once."""
    attempts = 0

    def attack(times: int) -> None:
        nonlocal attempts
        for _ in range(times):
            attempts += 1
            scene.ask(f"wrong {attempts}", f"10.0.{attempts % 200}.{attempts // 200 % 250}", name="guest")

    def checks_until_right(who: str, address: str) -> int:
        scene.answers.clear()
        scene.ask(who, address)
        checks = 0
        while (who, False) not in scene.answers:
            if (who, None) in scene.answers:
                scene.answers.clear()
                scene.ask(who, address)
            attack(5)
            scene.answer()
            checks += 1
        return checks

    attack(1_000)
    assert checks_until_right("early", "192.0.2.1") <= PENDING_LIMIT + FAILED_TURN, "a turn of each network that waits"
    for _ in range(200):
        attack(5)
        scene.answer()
    assert checks_until_right("late", "198.51.100.1") <= FAILED_TURN, "all of their networks have failed"
    assert checks_until_right("neighbour", "10.0.7.251") <= 2 * PENDING_LIMIT, "in the midst of them"


def test_a_source_whose_password_was_right_before_comes_first_also_beside_bad_neighbours(scene: Scene) -> None:
    scene.ask("known", "10.0.0.1")
    scene.answer(outcome=True)
    scene.ask("neighbour", "10.0.0.2")
    scene.answer()
    for number in range(PENDING_LIMIT + 1):
        scene.ask(f"{number}", f"10.1.{number}.1")
    scene.answers.clear()
    scene.ask("right", "10.0.0.1")
    for _ in range(3):  # the check under way, perhaps a turn in order, and it
        scene.answer(outcome=True)
    assert ("right", True) in scene.answers


def test_wrong_passwords_for_a_name_do_not_keep_out_the_right_one_from_the_same_address() -> None:
    """Nobody is known yet; forty clients try another password as soon as they are answered, and so does the owner."""
    scene, tries = Scene(REFUSED_S), 0
    numbers = count()

    def attack(client: int) -> None:
        def again(right: bool | None) -> None:
            scene.loop.call_soon(attack, client)

        scene.hashing.verify(NOBODY, f"wrong {next(numbers)}".encode(), again, "alice", "10.0.0.1")

    for client in range(40):
        attack(client)
    while ("alice", True) not in scene.answers and tries < 200:
        if scene.answers.count(("alice", None)) == tries:
            tries += 1
            scene.ask("alice", "10.0.0.1", "right", "alice")
        check = scene.loop.checks[-1]
        if check.outcome is None:
            assert isinstance(check.work, partial)
            scene.answer(check.work.args[1] == b"right")
        scene.loop.turn()
        scene.loop.clock.advance(round(FAILED_DELAY_S * 1000))
        scene.loop.turn()
    assert ("alice", True) in scene.answers


def test_a_name_with_failures_has_each_fourth_turn(scene: Scene) -> None:
    scene.ask("early", "10.0.0.1")
    scene.answer()
    scene.ask("running", "10.0.1.1")
    scene.ask("failed", "10.0.0.1")
    for number in range(20):
        scene.ask(f"other {number}", f"10.1.{number}.1")
    scene.answer_all()
    order = [who for who, _ in scene.answers]
    assert 2 <= order.index("failed") <= 2 + FAILED_TURN


def test_the_worst_are_remembered_where_too_many_have_failed(monkeypatch: Any) -> None:
    monkeypatch.setattr(login_queue, "FAILURES_LIMIT", 40)
    queue = LoginQueue()
    worst = path_of("10.0.0.1", "guest")
    for _ in range(FREE_FAILURES + 1):
        queue.failed(worst, 0.0)
    for number in range(1000):
        queue.failed(path_of(f"10.1.{number % 250}.{number // 250}", "guest"), 0.0)
    assert len(queue._failures) <= 40
    assert queue._failures[worst].count(0.0) == FREE_FAILURES + 1


def test_a_question_is_answered_once_for_all_sources_that_ask_it(scene: Scene) -> None:
    for number in range(10):
        scene.ask(f"client {number}", f"10.0.{number}.1", password="secret")
    scene.answer(outcome=True)
    assert scene.answers == [(f"client {number}", True) for number in range(10)]
    assert len(scene.loop.checks) == 1


def test_a_check_that_is_given_up_takes_no_other_asker_with_it(scene: Scene) -> None:
    scene.ask("running", "10.9.0.1")
    scene.answer()
    scene.ask("running", "10.8.0.1")
    scene.ask("failed before", "10.9.0.1", password="secret")
    scene.ask("client", "10.7.0.1", password="secret")
    for number in range(PENDING_LIMIT):
        scene.ask(f"{number}", f"10.100.{number}.1")
    assert ("failed before", None) in scene.answers
    scene.answer_all(outcome=True)
    assert ("client", True) in scene.answers


def test_a_check_whose_askers_have_gone_is_not_made(scene: Scene) -> None:
    scene.ask("first", "10.0.0.1")
    forget = scene.ask("gone", "10.0.0.1")
    scene.ask("last", "10.0.0.1")
    forget()
    forget()
    scene.answer_all()
    assert scene.answers == [("first", False), ("last", False)]
    assert len(scene.loop.checks) == 2


def test_a_source_that_fails_often_is_delayed_and_others_are_not(scene: Scene) -> None:
    for number in range(FREE_FAILURES + 1):
        scene.ask(str(number), "10.0.0.1")
        scene.answer()
    made = len(scene.loop.checks)
    scene.ask("again", "10.0.0.1")
    assert len(scene.loop.checks) == made, "it waits"
    scene.ask("other", "10.0.0.2")
    assert len(scene.loop.checks) == made + 1
    scene.answer()
    scene.loop.clock.advance(round(FAILED_DELAY_S * 1000))
    scene.answer()
    assert scene.answers[-2:] == [("other", False), ("again", False)]


def test_a_check_that_fails_says_nothing_of_the_password(scene: Scene) -> None:
    scene.ask("one", "10.0.0.1")
    scene.ask("two", "10.0.0.1")
    scene.answer(MemoryError("Memory allocation error"))
    scene.answer()
    assert scene.answers == [("one", None), ("two", False)]
    assert scene.lines == ["password_not_checked"]


def test_equal_passwords_of_different_names_are_not_answered_together(scene: Scene) -> None:
    """Unknown users share a hash: simultaneous answers would distinguish them from known users."""
    scene.ask("one", "10.0.0.1", "secret", "unknown")
    scene.ask("two", "10.0.0.1", "secret", "nobody")
    scene.answer()
    assert scene.answers == [("one", False)]


def test_what_the_thread_says_of_memory_is_no_answer(monkeypatch: Any) -> None:
    import argon2.low_level
    from argon2.exceptions import VerificationError

    def fail(*arguments: object) -> bool:
        raise VerificationError(argon2.low_level.error_to_str(-22))

    monkeypatch.setattr(argon2.low_level, "verify_secret", fail)
    try:
        hashing_module.verify(NOBODY, b"x")
    except MemoryError:
        return
    raise AssertionError("it said no")


@pytest.mark.parametrize("seed", range(3))
def test_each_check_is_taken_given_up_or_removed_once_whatever_happens(seed: int) -> None:
    random = Random(seed)
    queue = LoginQueue()
    waiting: dict[Check, None] = {}
    now_s = 0.0
    for _ in range(1000):
        now_s += random.random() / 50
        deed = random.random()
        if deed < 0.6:
            address = f"10.0.{random.randrange(20)}.{random.randrange(20)}"
            check = Check(path_of(address, random.choice("abc")), b"", lambda: True)
            waiting[check] = None
            given_up = queue.add(check, now_s)
            if given_up is not None:
                del waiting[given_up]
        elif deed < 0.7 and waiting:
            check = random.choice(list(waiting))
            assert queue.remove(check, now_s) and not queue.remove(check, now_s)
            del waiting[check]
        else:
            taken = queue.take(now_s)
            assert (taken is None) == (not waiting or queue.wait_s(now_s) > 0)
            if taken is not None:
                del waiting[taken]
                (queue.succeeded if random.random() < 0.1 else partial(queue.failed, now_s=now_s))(taken.path)
        assert len(queue) == len(waiting) <= PENDING_LIMIT
    while waiting:
        now_s += FAILED_DELAY_S
        taken = queue.take(now_s)
        if taken is not None:
            del waiting[taken]
    assert not queue and not queue._root.groups
