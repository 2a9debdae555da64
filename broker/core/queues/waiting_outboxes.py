"""The outboxes of a virtual host whose dead letters wait for a full queue, which may be another after a new binding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..jobs.scheduler import PUMP_COST, Job

if TYPE_CHECKING:
    from .dead_lettering import DeadLetterOutbox
    from .queue_host import QueueHost

LOOK_MS = 1_000  # from a change of bindings until the targets are searched again
LOOK_COST = 2 * PUMP_COST  # of one outbox, whose queue is pumped


class WaitingOutboxes:
    """The outboxes of a virtual host whose dead letters wait for a full queue.

    They search the targets again soon after a change of topology: a job has some of them do so in each turn.
    """

    __slots__ = ("_host", "_outboxes", "_expected")

    def __init__(self, host: QueueHost) -> None:
        self._host = host
        self._outboxes: dict[DeadLetterOutbox, None] = {}
        self._expected = False  # they search again soon

    def add(self, outbox: DeadLetterOutbox) -> None:
        self._outboxes[outbox] = None

    def remove(self, outbox: DeadLetterOutbox) -> None:
        """Remove an outbox, if it is there."""
        self._outboxes.pop(outbox, None)

    def on_changed(self) -> None:
        """Note a change of topology."""
        if self._outboxes and not self._expected:
            self._expected = True
            clock = self._host.clock
            clock.call_at(clock.now_ms() + LOOK_MS, self._start)

    def _start(self) -> None:
        self._host.scheduler.start("dead letters that wait for a full queue", self._search_again(), self._ended)

    def _search_again(self) -> Job:
        topology = self._host.topology
        for outbox in list(self._outboxes):
            outbox.wait_no_longer()
            yield LOOK_COST
        self._ended()
        if self._host.topology != topology:
            self.on_changed()

    def _ended(self) -> None:
        self._expected = False
