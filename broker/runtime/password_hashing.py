"""Argon2id in a thread of its own, because one hash takes tens of milliseconds and 19 MiB.

Successful checks are cached, as a keyed BLAKE2b digest of hash and password under a random key of this process, so
that clients that reconnect are accepted at once. A changed password has another hash, so its cached check is not found.
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from ..core.access.passwords import ARGON2ID, SALT_BYTES, Hashing, hash_password
from .login_queue import OPERATORS, Check, LoginQueue, Path, path_of
from .supervisor import Report

# The second choice of OWASP's cheat sheet on passwords: 19 MiB, two passes.
MEMORY_KIB = 19_456
PASSES = 2
LANES = 1
LEAST_WAIT_S = 0.005
REFUSED_S = 1.0
SHORTAGES = (-22, -33)  # argon2's errors for no memory and no thread
CACHE_LIMIT = 4096  # successful checks
KEY_BYTES = 32

Result = bytes | bool


@dataclass(eq=False, repr=False)
class ThreadHashing(Hashing):
    """The Hashing port with one thread, which makes checks in the order of a `LoginQueue`.

    `after` is called after each result, whose callback may have changed definitions. `report` logs an event.
    A check that is dropped is answered after `refused_s`: clients that try again at once would make so many checks that
    a right password among them is hardly ever verified.
    """

    _loop: asyncio.AbstractEventLoop
    _after: Callable[[], None]
    _report: Report = lambda event, level, fields: None
    refused_s: float = REFUSED_S

    def __post_init__(self) -> None:
        self._closed = False
        self._key = secrets.token_bytes(KEY_BYTES)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._asked: dict[bytes, dict[Path, Check]] = {}  # waiting checks by question and path
        self._made: dict[Check, Callable[[bytes], None]] = {}  # callbacks of new hashes
        self._queue = LoginQueue()
        self._running = False
        self._timer: asyncio.TimerHandle | None = None
        self._worker = ThreadPoolExecutor(1, "hashing")  # starts its thread with the first check

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
            check.waiting.append(then)
            dropped = self._queue.add(check, self._loop.time())
            if dropped is not None:
                self._refuse(dropped)
            if dropped is not check:
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
        """Stop: no callback is called any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _question(self, name: bytes, password_hash: bytes, password: bytes) -> bytes:
        """Return the keyed digest that identifies equal checks.

        It includes the name: unknown users share one hash, and simultaneous answers would reveal them.
        """
        parts = b"".join(len(part).to_bytes(4, "big") + part for part in (name, password_hash, password))
        return hashlib.blake2b(parts, digest_size=KEY_BYTES, key=self._key).digest()

    def _forget(self, check: Check, then: Callable[[bool | None], None]) -> None:
        """Forget a callback, and drop the check if no other waits for it."""
        if then in check.waiting:
            check.waiting.remove(then)
        if not check.waiting and self._queue.remove(check, self._loop.time()):
            self._answer(check, None)

    # Turns

    def _next(self) -> None:
        """Pass the next check to the thread, or wait until one is due."""
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
            if error is not None:  # a shortage of memory or threads, not a wrong password
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
            if len(self._right) > CACHE_LIMIT:
                self._right.popitem(last=False)
        for other in list(self._asked[check.question].values()):  # equal checks have the same result
            self._queue.remove(other, self._loop.time())
            if result:
                self._queue.succeeded(other.path)
            else:
                self._queue.failed(other.path, self._loop.time())
            self._answer(other, bool(result))

    def _answer(self, check: Check, right: bool | None) -> None:
        """Call the callbacks of a check that is no longer in the queue."""
        self._remove(check)
        self._call(check, right)

    def _refuse(self, check: Check) -> None:
        """Call the callbacks of a dropped check with None, after a while."""
        self._remove(check)
        if self.refused_s:
            self._loop.call_later(self.refused_s, self._call, check, None)
        else:
            self._call(check, None)

    def _remove(self, check: Check) -> None:
        same = self._asked[check.question]
        del same[check.path]
        if not same:
            del self._asked[check.question]

    def _call(self, check: Check, right: bool | None) -> None:
        waiting, check.waiting = check.waiting, []  # a callback may call `_forget`
        for then in waiting if not self._closed else ():
            then(right)


def nothing() -> None:
    """Do nothing: the function that cancels a check which has its result already."""


def hash_argon2id(password: bytes) -> bytes:
    """Hash in the thread, and return the hash as it is stored."""
    from argon2.low_level import Type, hash_secret  # here, because it is slow to import and rarely needed

    salt = secrets.token_bytes(16)
    return hash_secret(password, salt, PASSES, MEMORY_KIB, LANES, 32, Type.ID)


def verify(password_hash: bytes, password: bytes) -> bool:
    """Verify in the thread. Raises MemoryError without memory or a thread for it: the password may be right."""
    from argon2.exceptions import Argon2Error
    from argon2.low_level import Type, error_to_str, verify_secret

    try:
        return verify_secret(password_hash, password, Type.ID)
    except Argon2Error as error:
        if str(error) in [error_to_str(number) for number in SHORTAGES]:
            raise MemoryError(str(error)) from None
        return False
