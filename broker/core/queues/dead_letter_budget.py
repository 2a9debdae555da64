"""The memory that messages which wait to be dead-lettered may take in the whole node, by user."""

from collections.abc import Callable
from functools import partial
from itertools import islice

from ..messages.clock import Clock

ALL_BYTES = 256 << 20  # in the outboxes of the node, also of deleted queues,
USER_BYTES = 16 << 20  # if these are of one user: queues and publishers of that user wait
FEW_BYTES = 8 << 20  # in the outboxes of the node: no limit is near, also after a step of a queue
WOKEN = 100  # of those that wait for fewer, here or in one outbox, in one turn


class DeadLetterBudget:
    """The bytes of dead letters that wait, by the account of a user, which is empty if it is not known.

    Those that no limit of a queue bounds are `loose`: the queue has rejected them, or is deleted. They never wait for a
    target that is missing or refuses them, so calls that wait for fewer of them are made some time.

    total          of all of them
    full_outboxes  queues that must not reject more messages, which they would dead-letter; and 1 if the total is
                   ALL_BYTES
    """

    __slots__ = ("total", "full_outboxes", "_of_users", "_loose", "_waiting", "_woken", "_waking")

    def __init__(self) -> None:
        self.total = 0
        self.full_outboxes = 0
        self._of_users: dict[str, int] = {}
        self._loose: dict[str, int] = {}
        self._waiting: dict[str, dict[Callable[[], None], None]] = {}  # by account
        self._woken: dict[Callable[[], None], None] = {}  # those of them to be called
        self._waking = False  # soon

    def of(self, account: str) -> int:
        return self._of_users.get(account, 0)

    def has_many_loose(self, account: str) -> bool:
        """Return whether this user has; False for the empty account, which may be that of anyone."""
        return account != "" and self._loose.get(account, 0) > USER_BYTES

    def is_full(self, account: str) -> bool:
        """Return whether nothing may become a dead letter of this user, also not in a queue without any."""
        return self.total >= ALL_BYTES and self.has_many_loose(account)

    def add(self, account: str, count: int, loose: int, clock: Clock) -> None:
        """Count bytes that came, and those of them that are loose; both are negative for bytes that left."""
        before = self._levels(account)
        self.total += count
        for of_users, change in ((self._of_users, count), (self._loose, loose)):
            rest = of_users.get(account, 0) + change
            if rest:
                of_users[account] = rest
            else:
                of_users.pop(account, None)
        after = self._levels(account)
        if before == after:
            return
        self.full_outboxes += after[0] - before[0]
        accounts = list(self._waiting) if after[0] < before[0] else [account]
        if self._waiting and count < 0:
            for each in accounts:
                self._woken.update(self._waiting.pop(each, {}))
            if self._woken and not self._waking:
                self._wake(clock)

    def _levels(self, account: str) -> tuple[bool, bool, bool]:
        """Return which bounds are reached: that of the node, and those of a user."""
        return self.total >= ALL_BYTES, self.of(account) >= USER_BYTES, self.has_many_loose(account)

    def when_fewer(self, account: str, fn: Callable[[], None]) -> None:
        """Call `fn` once when a bound is not reached any more, of the node or of this user. It looks itself again."""
        self._waiting.setdefault(account, {})[fn] = None

    def forget(self, account: str, fn: Callable[[], None]) -> None:
        """Do not call `fn` any more."""
        self._woken.pop(fn, None)
        waiting = self._waiting.get(account)
        if waiting is not None:
            waiting.pop(fn, None)
            if not waiting:
                del self._waiting[account]

    def _wake(self, clock: Clock) -> None:
        """Call some of those that waited, in their order, and the others soon."""
        self._waking = False
        for fn in list(islice(self._woken, WOKEN)):
            self._woken.pop(fn, None)
            fn()
        if self._woken:
            self._waking = True
            clock.call_at(clock.now_ms(), partial(self._wake, clock))
