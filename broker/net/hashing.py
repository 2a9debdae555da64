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
from typing import TypeVar

from ..core.passwords import ARGON2ID, SALT_BYTES, Hashing, hash_password

# The second choice of OWASP's cheat sheet on passwords: 19 MiB, two passes.
MEMORY_KIB = 19_456
PASSES = 2
LANES = 1
PENDING_LIMIT = 256  # answers that are waited for: eight seconds of them, a handshake has ten
REMEMBERED = 4096  # right passwords
KEY_BYTES = 32

T = TypeVar("T")


class ThreadHashing(Hashing):
    """`after` is called whenever an answer was given: it may have changed something that is to be stored."""

    def __init__(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None]) -> None:
        self._loop = loop
        self._after = after
        self._key = secrets.token_bytes(KEY_BYTES)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._asked: dict[bytes, list[Callable[[bool], None]]] = {}  # several may ask the same at the same time
        self._pending = 0
        self._worker = ThreadPoolExecutor(1, "hashing")  # which has no thread before it is given something to do

    def verify(self, password_hash: bytes, password: bytes, then: Callable[[bool], None]) -> None:
        question = hmac.digest(self._key, len(password_hash).to_bytes(4, "big") + password_hash + password, "sha256")
        if question in self._right:
            self._right.move_to_end(question)
            then(True)
        elif question in self._asked and self._pending < PENDING_LIMIT:
            self._pending += 1
            self._asked[question].append(then)
        elif self._pending < PENDING_LIMIT:
            self._pending += 1
            self._asked[question] = [then]
            self._run(partial(verify, password_hash, password), partial(self._verified, question))
        else:
            then(False)

    def hash(self, password: bytes, algorithm: str, then: Callable[[bytes], None]) -> None:
        if algorithm == ARGON2ID:
            self._run(partial(hash_argon2id, password), then)
        else:
            then(hash_password(password, secrets.token_bytes(SALT_BYTES), algorithm))

    def close(self) -> None:
        """No answer comes any more."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _verified(self, question: bytes, right: bool) -> None:
        if right:
            self._right[question] = None
            if len(self._right) > REMEMBERED:
                self._right.popitem(last=False)
        waiting = self._asked.pop(question)
        self._pending -= len(waiting)
        for then in waiting:
            then(right)

    def _run(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        def done(future: asyncio.Future[T]) -> None:
            if not future.cancelled():
                then(future.result())
                self._after()

        self._loop.run_in_executor(self._worker, work).add_done_callback(done)


def hash_argon2id(password: bytes) -> bytes:
    """In the thread: a hash as it is stored."""
    from argon2.low_level import Type, hash_secret  # here, as it is slow to import and rarely needed

    salt = secrets.token_bytes(16)
    return hash_secret(password, salt, PASSES, MEMORY_KIB, LANES, 32, Type.ID)


def verify(password_hash: bytes, password: bytes) -> bool:
    """In the thread."""
    from argon2.exceptions import Argon2Error
    from argon2.low_level import Type, verify_secret

    try:
        return verify_secret(password_hash, password, Type.ID)
    except Argon2Error:
        return False
