"""Argon2id in a thread of its own: one hash takes tens of milliseconds and 19 MiB, and the loop serves everybody.

Which password was right for which hash is remembered, as an HMAC under a key that this process made up: clients that
connect again and again are let in at once. A user whose password changes gets another hash, so nothing is left of that.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ..core.passwords import ARGON2ID, SALT_BYTES, Hashing, hash_password
from .tls import Report

# The second choice of OWASP's cheat sheet on passwords: 19 MiB, two passes.
MEMORY_KIB = 19_456
PASSES = 2
LANES = 1
PENDING_LIMIT = 256  # checks that wait: eight seconds of them, a handshake has ten
SOURCE_LIMIT = 32  # of these, from one source, with the delay of one that fails often: four seconds
SOURCES_LIMIT = 4096  # whose failures are remembered
FREE_FAILURES = 10  # wrong passwords of one source until each of them delays its next check
FORGIVEN_S = 1.0  # and is forgotten after this
FAILED_DELAY_S = 0.1
LEAST_WAIT_S = 0.005
OPERATORS = "operators"  # the source of new hashes, which is no address
NOT_NOW = (-22, -33)  # argon2's numbers for no memory and no thread
REMEMBERED = 4096  # right passwords
KEY_BYTES = 32

Result = bytes | bool


class Check:
    """Work for the thread, and those who wait for its result: `done` is None where it could not be done now."""

    __slots__ = ("done", "name", "waiting", "work")

    def __init__(self, work: Callable[[], Result], done: Callable[[Result | None], None]) -> None:
        self.work = work
        self.done = done
        self.name = b""  # of a question that others may ask as well
        self.waiting: list[Callable[[bool | None], None]] = []


class Source:
    """The requests of one address: its checks, the oldest first, and how often its passwords were wrong lately."""

    __slots__ = ("checks", "due_s", "failures", "failed_s")

    def __init__(self) -> None:
        self.checks: deque[Check] = deque()
        self.due_s = 0.0
        self.failures = 0.0  # each is forgiven after FORGIVEN_S
        self.failed_s = 0.0

    def failed(self, now_s: float) -> None:
        self.failures = max(0.0, self.failures - (now_s - self.failed_s) / FORGIVEN_S) + 1.0
        self.failed_s = now_s
        if self.failures > FREE_FAILURES:
            self.due_s = now_s + FAILED_DELAY_S


class ThreadHashing(Hashing):
    """Sources take turns, one check each. `after` is called whenever an answer was given: it may have changed
    something that is to be stored. `report` writes one line to the log."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        after: Callable[[], None],
        report: Report = lambda event, level, fields: None,
    ) -> None:
        self._loop = loop
        self._after = after
        self._report = report
        self._key = secrets.token_bytes(KEY_BYTES)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._asked: dict[bytes, Check] = {}  # several may ask the same at the same time
        self._sources: OrderedDict[str, Source] = OrderedDict()  # the one whose turn is next comes first
        self._pending = 0
        self._running = False
        self._timer: asyncio.TimerHandle | None = None
        self._worker = ThreadPoolExecutor(1, "hashing")  # which has no thread before it is given something to do

    def verify(
        self,
        password_hash: bytes,
        password: bytes,
        then: Callable[[bool | None], None],
        name: str = "",
        source: str = "",
    ) -> Callable[[], None]:
        question = self._question(name.encode("utf-8", "surrogateescape"), password_hash, password)
        if question in self._right:
            self._right.move_to_end(question)
            then(True)
            return nothing
        check = self._asked.get(question)
        if check is None:
            check = Check(partial(verify, password_hash, password), partial(self._verified, question, source))
            check.name = question
            if not self._add(source, check):
                then(None)
                return nothing
            self._asked[question] = check
        check.waiting.append(then)
        return partial(self._forget, check, source, then)

    def hash(self, password: bytes, algorithm: str, then: Callable[[bytes], None]) -> None:
        if algorithm != ARGON2ID:
            then(hash_password(password, secrets.token_bytes(SALT_BYTES), algorithm))
            return

        def done(made: bytes | bool | None) -> None:
            if isinstance(made, bytes):
                then(made)

        self._sources.setdefault(OPERATORS, Source()).checks.append(Check(partial(hash_argon2id, password), done))
        self._pending += 1
        self._next()

    def close(self) -> None:
        """No answer comes any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _question(self, name: bytes, password_hash: bytes, password: bytes) -> bytes:
        """The name is part of it: unknown users share one hash, and being answered together would tell them."""
        parts = b"".join(len(part).to_bytes(4, "big") + part for part in (name, password_hash, password))
        return hmac.digest(self._key, parts, "sha256")

    def _add(self, address: str, check: Check) -> bool:
        """Have it stand in line; False where too many of this source do. Where too many do in all, the last of the
        source that has most is told to come back."""
        source = self._sources.get(address)
        if source is None:
            self._forget_sources()
            source = self._sources[address] = Source()
        if len(source.checks) >= SOURCE_LIMIT:
            return False
        if self._pending >= PENDING_LIMIT:
            others = [one for name, one in self._sources.items() if name != OPERATORS]
            largest = max(others, key=lambda one: len(one.checks))
            if len(largest.checks) <= len(source.checks):
                return False
            self._pending -= 1
            largest.checks.pop().done(None)
        source.checks.append(check)
        self._pending += 1
        self._next()
        return True

    def _forget(self, check: Check, address: str, then: Callable[[bool | None], None]) -> None:
        """Forget the caller; a check that nobody waits for is not made."""
        if then in check.waiting:
            check.waiting.remove(then)
        source = self._sources.get(address)
        if not check.waiting and source is not None and check in source.checks:
            source.checks.remove(check)
            self._pending -= 1
            del self._asked[check.name]

    def _forget_sources(self) -> None:
        """Sources without checks, the one that has had no turn for the longest time first."""
        if len(self._sources) >= SOURCES_LIMIT:
            idle = next((address for address, source in self._sources.items() if not source.checks), None)
            if idle is not None:
                del self._sources[idle]

    # Turns

    def _next(self) -> None:
        """Have the thread make one check of the first source that has one and is not delayed."""
        if self._running or not self._pending:
            return
        now_s = self._loop.time()
        wait_s = FAILED_DELAY_S
        for address, source in self._sources.items():
            if source.checks and source.due_s <= now_s:
                self._run(address, source.checks.popleft())
                return
            if source.checks:
                wait_s = min(wait_s, source.due_s - now_s)
        if self._timer is None:
            self._timer = self._loop.call_later(max(wait_s, LEAST_WAIT_S), self._look)

    def _look(self) -> None:
        self._timer = None
        self._next()

    def _run(self, address: str, check: Check) -> None:
        def done(future: asyncio.Future[Result]) -> None:
            self._running = False
            if address in self._sources:
                self._sources.move_to_end(address)
            if future.cancelled():
                return
            error = future.exception()
            if error is not None:  # not a word on the password: memory or a thread could not be had
                self._report("password_not_checked", "error", {"exc_info": error})
            check.done(None if error is not None else future.result())
            self._next()
            self._after()

        self._running = True
        self._pending -= 1
        self._loop.run_in_executor(self._worker, check.work).add_done_callback(done)

    def _verified(self, question: bytes, address: str, right: Result | None) -> None:
        check = self._asked.pop(question)
        answer = None if right is None else bool(right)
        if answer:
            self._right[question] = None
            if len(self._right) > REMEMBERED:
                self._right.popitem(last=False)
        elif answer is False and address in self._sources:
            self._sources[address].failed(self._loop.time())
        for then in check.waiting:
            then(answer)


def nothing() -> None:
    """There is nothing to forget: it was answered at once."""


def hash_argon2id(password: bytes) -> bytes:
    """In the thread: a hash as it is stored."""
    from argon2.low_level import Type, hash_secret  # here, as it is slow to import and rarely needed

    salt = secrets.token_bytes(16)
    return hash_secret(password, salt, PASSES, MEMORY_KIB, LANES, 32, Type.ID)


def verify(password_hash: bytes, password: bytes) -> bool:
    """Verify in the thread. Raises MemoryError where there is no memory or thread for it: the password may be right."""
    from argon2.exceptions import Argon2Error
    from argon2.low_level import Type, error_to_str, verify_secret

    try:
        return verify_secret(password_hash, password, Type.ID)
    except Argon2Error as error:
        if str(error) in [error_to_str(number) for number in NOT_NOW]:
            raise MemoryError(str(error)) from None
        return False
