"""The outboxes of a virtual host whose dead letters wait for a full queue, which may be another after a new binding."""

from collections.abc import Callable

from ..jobs.scheduler import PUMP_COST, Job, Scheduler
from ..messages.clock import Clock

LOOK_MS = 1_000  # from a change of bindings until the targets are searched again
LOOK_COST = 2 * PUMP_COST  # of one outbox, whose queue is pumped


class WaitingOutboxes:
    """The outboxes of a virtual host whose dead letters wait for a full queue.

    Each is known by the call that has it search the targets again. That is soon after a change of topology: a job calls
    some of them in each turn.
    """

    __slots__ = ("_clock", "_scheduler", "_calls", "_expected", "_changed")

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._calls: dict[Callable[[], None], None] = {}
        self._expected = False  # they search again soon
        self._changed = False  # since they have begun to

    def add(self, search_again: Callable[[], None]) -> None:
        self._calls[search_again] = None

    def remove(self, search_again: Callable[[], None]) -> None:
        """Remove a call, if it is there."""
        self._calls.pop(search_again, None)

    def on_changed(self) -> None:
        """Note a change of topology."""
        self._changed = True
        if self._calls and not self._expected:
            self._expected = True
            self._clock.call_at(self._clock.now_ms() + LOOK_MS, self._start)

    def _start(self) -> None:
        self._scheduler.start("dead letters that wait for a full queue", self._search_again(), self._ended)

    def _search_again(self) -> Job:
        self._changed = False
        for search_again in list(self._calls):
            search_again()
            yield LOOK_COST
        self._ended()
        if self._changed:
            self.on_changed()

    def _ended(self) -> None:
        self._expected = False
