"""Argon2id in a thread of its own: one hash takes tens of milliseconds and 19 MiB, and the loop serves everybody.

Which password was right for which hash is remembered, as an HMAC under a key that this process made up: clients that
connect again and again are let in at once. A user whose password changes gets another hash, so nothing is left of that.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ..core.access.passwords import ARGON2ID, SALT_BYTES, Hashing, hash_password
from .login_queue import OPERATORS, Check, LoginQueue, Path, path_of
from .supervisor import Report

# The second choice of OWASP's cheat sheet on passwords: 19 MiB, two passes.
MEMORY_KIB = 19_456
PASSES = 2
LANES = 1
LEAST_WAIT_S = 0.005
NOT_NOW = (-22, -33)  # argon2's numbers for no memory and no thread
REMEMBERED = 4096  # right passwords
KEY_BYTES = 32

Result = bytes | bool


class ThreadHashing(Hashing):
    """One thread that makes checks in the order of a `LoginQueue`.

    `after` is called whenever an answer was given: it may have changed something that is to be stored. `report` writes
    one line to the log.
    """

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
        self._asked: dict[bytes, dict[Path, Check]] = {}  # by question: several may ask the same at the same time
        self._made: dict[Check, Callable[[bytes], None]] = {}  # who waits for a new hash
        self._queue = LoginQueue()
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
        path = path_of(source, name)
        same = self._asked.setdefault(question, {})
        check = same.get(path)
        if check is None:
            check = same[path] = Check(path, question, partial(verify, password_hash, password))
            given_up = self._queue.add(check, self._loop.time())
            if given_up is not None:
                self._answer(given_up, None)
            if given_up is check:
                then(None)
                return nothing
            check.waiting.append(then)
            self._next()
        else:
            check.waiting.append(then)
        return partial(self._forget, check, then)

    def hash(self, password: bytes, algorithm: str, then: Callable[[bytes], None]) -> None:
        if algorithm != ARGON2ID:
            then(hash_password(password, secrets.token_bytes(SALT_BYTES), algorithm))
            return

        check = Check((OPERATORS, OPERATORS, ""), b"", partial(hash_argon2id, password))
        self._made[check] = then
        self._queue.add(check, self._loop.time())
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

    def _forget(self, check: Check, then: Callable[[bool | None], None]) -> None:
        """Forget the caller; a check that nobody waits for is not made."""
        if then in check.waiting:
            check.waiting.remove(then)
        if not check.waiting and self._queue.remove(check, self._loop.time()):
            self._answer(check, None)

    # Turns

    def _next(self) -> None:
        """Have the thread make the check whose turn it is."""
        if self._running or not self._queue:
            return
        now_s = self._loop.time()
        check = self._queue.take(now_s)
        if check is not None:
            self._run(check)
        elif self._timer is None:
            self._timer = self._loop.call_later(max(self._queue.wait_s(now_s), LEAST_WAIT_S), self._look)

    def _look(self) -> None:
        self._timer = None
        self._next()

    def _run(self, check: Check) -> None:
        def done(future: asyncio.Future[Result]) -> None:
            self._running = False
            if future.cancelled():
                return
            error = future.exception()
            if error is not None:  # not a word on the password: memory or a thread could not be had
                self._report("password_not_checked", "error", {"exc_info": error})
            self._done(check, None if error is not None else future.result())
            self._next()
            self._after()

        self._running = True
        self._loop.run_in_executor(self._worker, check.work).add_done_callback(done)

    def _done(self, check: Check, result: Result | None) -> None:
        made = self._made.pop(check, None)
        if made is not None:
            if isinstance(result, bytes):
                made(result)
            return
        if result is None:
            self._answer(check, None)
            return
        if result:
            self._right[check.question] = None
            if len(self._right) > REMEMBERED:
                self._right.popitem(last=False)
        for other in list(self._asked[check.question].values()):  # it is the same for all who ask the same
            self._queue.remove(other, self._loop.time())
            if result:
                self._queue.succeeded(other.path)
            else:
                self._queue.failed(other.path, self._loop.time())
            self._answer(other, bool(result))

    def _answer(self, check: Check, right: bool | None) -> None:
        """Answer those who wait for a check that is not in the queue any more."""
        same = self._asked[check.question]
        del same[check.path]
        if not same:
            del self._asked[check.question]
        waiting, check.waiting = check.waiting, []  # a caller that is answered may forget its question
        for then in waiting:
            then(right)


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
