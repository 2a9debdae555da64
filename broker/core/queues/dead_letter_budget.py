"""The memory that messages which wait to be dead-lettered may take in the whole node, by user."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice

from ..messages.ports import Clock

ALL_BYTES = 256 << 20  # in the outboxes of the node, also of deleted queues,
USER_BYTES = 16 << 20  # if these are of one user: queues and publishers of that user wait
WOKEN = 100  # of those that wait for room, whenever there is some


class DeadLetterBudget:
    """The bytes of dead letters that wait, by the account of a user, which is empty if it is not known.

    Those that no queue's own limits bound, as it has rejected them or is deleted, are `loose`. They never wait for a
    target that is missing or refuses them, so those who wait for fewer of them go on some time.

    total          of all of them
    full_outboxes  queues that must not reject more messages, which they would dead-letter; and 1 if the total is
                   ALL_BYTES
    """

    __slots__ = ("total", "full_outboxes", "_of_users", "_loose", "_waiting", "_woken", "_waking", "_over")

    def __init__(self) -> None:
        self.total = 0
        self.full_outboxes = 0
        self._of_users: dict[str, int] = {}
        self._loose: dict[str, int] = {}
        self._waiting: dict[str, dict[Callable[[], None], None]] = {}
        self._woken: dict[str, None] = {}  # the accounts of which some have been called or may be
        self._waking = False  # soon
        self._over = False  # counted in `full_outboxes`

    def of(self, account: str) -> int:
        return self._of_users.get(account, 0)

    def has_many_loose(self, account: str) -> bool:
        return self._loose.get(account, 0) > USER_BYTES

    def is_full(self, account: str) -> bool:
        """Return whether nothing may become a dead letter of this user, also not in a queue without any."""
        return self.total >= ALL_BYTES and self.has_many_loose(account)

    def add(self, account: str, count: int, loose: int, clock: Clock) -> None:
        """Count bytes that came, and those of them that are loose; both are negative for bytes that left."""
        self.total += count
        for of_users, change in ((self._of_users, count), (self._loose, loose)):
            rest = of_users.get(account, 0) + change
            if rest:
                of_users[account] = rest
            else:
                of_users.pop(account, None)
        over = self.total >= ALL_BYTES
        if over != self._over:
            self._over = over
            self.full_outboxes += 1 if over else -1
        if count < 0 and self._waiting:
            self._woken[account] = None
            if not self._waking:
                self._wake(clock)

    def when_room(self, account: str, fn: Callable[[], None]) -> None:
        """Call `fn` once when it is no longer full for this user."""
        self._waiting.setdefault(account, {})[fn] = None

    def forget(self, account: str, fn: Callable[[], None]) -> None:
        """Do not call `fn` any more."""
        waiting = self._waiting.get(account, {})
        waiting.pop(fn, None)
        if not waiting:
            self._waiting.pop(account, None)

    def _wake(self, clock: Clock) -> None:
        """Call some of those that may go on, in their order for each user, and the others soon."""
        self._waking = False
        left = WOKEN
        for account in list(islice(self._woken if self._over else self._waiting, WOKEN)):
            if not self.is_full(account):
                for fn in list(islice(self._waiting.get(account, ()), left)):
                    self.forget(account, fn)
                    fn()
                    left -= 1
                if not left:
                    break
            self._woken.pop(account, None)
        if self._woken if self._over else self._waiting:
            self._waking = True
            clock.call_at(clock.now_ms(), partial(self._wake, clock))
