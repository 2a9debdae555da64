"""Fake password hashing: hashes in the format of argon2id that cost nothing, and results that a test can delay."""

from collections.abc import Callable

from warren.broker.core.access.passwords import ARGON2ID, Hashing, hash_password

PREFIX = b"$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0$"


def fake_hash(password: bytes) -> bytes:
    return PREFIX + password.hex().encode().ljust(20, b"A")


class FakeHashing(Hashing):
    """Fake hashing. `asked` counts requests; while `slow`, results stay in `waiting`; while `busy`, there are none."""

    def __init__(self) -> None:
        self.asked = 0
        self.slow = False
        self.busy = False
        self.waiting: list[Callable[[], None]] = []

    def verify(
        self,
        password_hash: bytes,
        password: bytes,
        then: Callable[[bool | None], None],
        name: str = "",
        source: str = "",
    ) -> Callable[[], None]:
        self.asked += 1
        if self.busy:
            then(None)
            return lambda: None

        def answer() -> None:
            then(password_hash == fake_hash(password))

        self._answer(answer)
        return lambda: self.waiting.remove(answer) if answer in self.waiting else None

    def hash(self, password: bytes, algorithm: str, then: Callable[[bytes], None]) -> None:
        if algorithm == ARGON2ID:
            self._answer(lambda: then(fake_hash(password)))
        else:
            then(hash_password(password, b"salt", algorithm))

    def answer(self) -> None:
        """Give all waiting results."""
        waiting, self.waiting = self.waiting, []
        for fn in waiting:
            fn()

    def _answer(self, fn: Callable[[], None]) -> None:
        if self.slow:
            self.waiting.append(fn)
        else:
            fn()
