"""Whose password is verified next, and what becomes of those who cannot be told now. The thread is the test."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from broker.core.passwords import NOBODY
from broker.net import hashing as hashing_module
from broker.net.hashing import FAILED_DELAY_S, FREE_FAILURES, PENDING_LIMIT, SOURCE_LIMIT, ThreadHashing
from tests.support.clock import FakeClock, FakeLoop


class Future:
    """The result of one check, once the test has it made."""

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
    """`checks` are those that the thread was given."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        super().__init__(self.clock)
        self.checks: list[Future] = []

    def run_in_executor(self, executor: object, work: Callable[[], Any]) -> Future:
        self.checks.append(Future(work))
        return self.checks[-1]


class Scene:
    """`answers` are told in order: who asked, and the answer."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.lines: list[str] = []
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        self.hashing = ThreadHashing(loop, lambda: None, lambda event, level, fields: self.lines.append(event))
        self.answers: list[tuple[str, bool | None]] = []

    def ask(self, who: str, source: str, password: str = "", name: str = "guest") -> Callable[[], None]:
        def then(right: bool | None) -> None:
            self.answers.append((who, right))

        return self.hashing.verify(NOBODY, (password or who).encode(), then, name, source)

    def answer(self, outcome: object = False) -> None:
        """Have the thread finish what it was given last."""
        future = self.loop.checks[-1]
        future.outcome = outcome
        for callback in future.callbacks:
            callback(future)

    def answer_all(self, outcome: object = False) -> None:
        for _ in range(4 * PENDING_LIMIT):
            if len(self.loop.checks) and self.loop.checks[-1].outcome is None:
                self.answer(outcome)
            self.loop.clock.advance(round(FAILED_DELAY_S * 1000))


def test_sources_take_turns_however_many_one_of_them_asks() -> None:
    scene = Scene()
    for number in range(300):
        scene.ask(f"wrong {number}", "10.0.0.1")
    scene.ask("right", "10.0.0.2")
    refused = [answer for answer in scene.answers if answer[1] is None]
    assert len(refused) == 300 - SOURCE_LIMIT - 1, "one is being checked"
    scene.answers.clear()
    scene.answer()
    scene.answer(outcome=True)
    assert scene.answers == [("wrong 0", False), ("right", True)]


def test_the_same_source_comes_to_its_turn_as_well() -> None:
    scene = Scene()
    for number in range(SOURCE_LIMIT):
        scene.ask(f"wrong {number}", "10.0.0.1")
    scene.ask("right", "10.0.0.1")
    scene.answer_all()
    assert ("right", False) in scene.answers and len(scene.answers) == SOURCE_LIMIT + 1


def test_where_too_many_wait_a_newcomer_takes_the_place_of_the_source_that_has_most() -> None:
    scene = Scene()
    sources = PENDING_LIMIT // SOURCE_LIMIT
    for source in range(sources):
        for number in range(SOURCE_LIMIT):
            scene.ask(f"{source} {number}", f"10.0.0.{source}")
    scene.ask("filler", "10.0.0.0")
    scene.answers.clear()
    scene.ask("newcomer", "10.1.0.0")
    assert len(scene.answers) == 1 and scene.answers[0][1] is None
    scene.answer_all()
    assert ("newcomer", False) in scene.answers


def test_a_check_whose_askers_have_gone_is_not_made() -> None:
    scene = Scene()
    scene.ask("first", "10.0.0.1")
    forget = scene.ask("gone", "10.0.0.1")
    scene.ask("last", "10.0.0.1")
    forget()
    forget()
    scene.answer_all()
    assert scene.answers == [("first", False), ("last", False)]
    assert len(scene.loop.checks) == 2


def test_a_source_that_fails_often_is_delayed_and_others_are_not() -> None:
    scene = Scene()
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


def test_a_check_that_fails_says_nothing_of_the_password() -> None:
    scene = Scene()
    scene.ask("one", "10.0.0.1")
    scene.ask("two", "10.0.0.1")
    scene.answer(MemoryError("Memory allocation error"))
    scene.answer()
    assert scene.answers == [("one", None), ("two", False)]
    assert scene.lines == ["password_not_checked"]


def test_equal_passwords_of_different_names_are_not_answered_together() -> None:
    """Unknown users share a hash: answered together, they would be told from known ones."""
    scene = Scene()
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
