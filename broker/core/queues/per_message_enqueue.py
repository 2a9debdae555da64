"""Publishing to queues that look at each message: for priorities, times to live, limits that reject, deduplication.

All other queues get their messages from `QueueHost.enqueue`, many at once.
"""

from __future__ import annotations

from typing import cast

from ...amqp import properties
from ..messages.message import Message, total_bytes
from ..messages.message_state import NEVER, NO_TTL, MessageState
from ..metadata.queue_types import QUORUM
from .queue_host import HostedQueue
from .queue_settings import QueueSettings

# How long a message stays although its time to live is 0, or it is above a length limit, where very many consumers have
# to be asked, or are woken in turns.
HAND_OVER_MS = 1_000


class PerMessageEnqueue:
    """Publishes messages one by one to one queue, or to several with equal keys (`RouteTarget.record_key`)."""

    __slots__ = (
        *("queue", "_queues", "settings", "shared", "source", "stored", "now_ms", "run", "level", "run_bytes"),
        *("_hands_over", "_property_bytes", "_property_level"),
    )

    def __init__(self, queues: tuple[HostedQueue, ...], source: str, shared: bool) -> None:
        queue = queues[0]
        self.queue = queue  # the only queue, or the first one
        self._queues = queues
        self.settings = queue.settings
        self.shared = shared  # other targets have the messages as well, so this queue gets copies
        self.source = source
        self.stored = False  # a confirm has to wait for the journal
        self.now_ms = queue.host.clock.now_ms()
        self.run: list[Message] = []  # messages with the same priority that are stored and pushed together
        self.run_bytes = 0
        self.level = 0
        self._hands_over = any(each.hands_over for each in queues)
        self._property_bytes = b""
        self._property_level = 0

    def add(self, message: Message) -> bool:
        """Add a message; return False if the queue rejects it."""
        deduplication = self.queue.deduplication
        key = deduplication.key_of(message) if deduplication is not None else b""
        if deduplication is not None and deduplication.is_duplicate(key, self.now_ms):
            self.stored = True  # its confirm waits for the original, which may not be durable yet
            return True
        if self.settings.rejects_publish and not self._has_room(message):
            return False
        if deduplication is not None:
            deduplication.add(key, message, self.now_ms)
        level = self._level_of(message)
        ttl_ms = shortest_ttl(self.settings, message.state)
        dead_lettered, bcc_keys = message.dead_lettered, message.bcc_keys
        if self.shared or message.id:
            message = message.copy_for_queue()
        if self.settings.type == QUORUM:
            message.persistent = True  # whatever its delivery mode
        if ttl_ms != NO_TTL or level or dead_lettered or bcc_keys:
            deadline_ms = self.now_ms + ttl_ms if ttl_ms != NO_TTL else NEVER
            message.state = MessageState(NO_TTL, deadline_ms, level, 0, dead_lettered, bcc_keys)
        at_once = ttl_ms == 0 and self._hands_over
        if level != self.level or at_once:
            self.push()
        self.level = level
        self.run.append(message)
        self.run_bytes += message.body_bytes
        if at_once:
            self._hand_over()
        return True

    def push(self) -> list[Message]:
        """Store and push the run; return the last message of each queue, or none without a run."""
        if not self.run:
            return []
        run, self.run = self.run, []
        run_bytes, self.run_bytes = self.run_bytes, 0
        queues, host = self._queues, self.queue.host
        numbers = [queue.number for queue in queues if queue.number]
        persistent = [message for message in run if message.persistent] if numbers else []
        if persistent:
            host.journal.append(numbers, persistent)
            stored_bytes = run_bytes if len(persistent) == len(run) else total_bytes(persistent)
            for queue in queues:
                queue.count_stored(len(persistent), stored_bytes)
            self.stored = True
        if host.traffic_log is not None:
            host.traffic_log.enqueued(queues, run, self.source)
        if len(queues) == 1:
            self.queue.push_at(self.level, run, run_bytes, self.shared)
            return run[-1:]
        last = []
        for queue in queues:
            own = run if queue is self.queue else [message.copy_with_record() for message in run]
            queue.push_at(self.level, own, run_bytes, self.shared)
            last.append(own[-1])
        return last

    def _hand_over(self) -> None:
        """Deliver the last message, which has a time to live of 0, to consumers with room, or let it expire."""
        for queue in self._queues:
            if not queue.interrupted:  # otherwise `pump` goes on, because it may take long
                queue.host.feed(queue)  # first the messages before it
        states = [cast("MessageState", message.state) for message in self.push()]
        for state in states:
            state.deadline_ms = NEVER
        for queue, state in zip(self._queues, states, strict=True):
            if not queue.interrupted:
                queue.host.feed(queue)
                queue.await_freed()
            state.deadline_ms = self.now_ms + HAND_OVER_MS if queue.interrupted else self.now_ms
            queue.expire_soon(state.level)

    def _has_room(self, message: Message) -> bool:
        if not self.queue.is_full(self.run_bytes + message.body_bytes, len(self.run)):
            return True
        self.push()
        if self.queue.takes(message.body_bytes):
            return True
        if self.settings.dead_letters_rejected and self.queue.dead_letter_rejected(message):
            self.stored = True
        return False

    def _level_of(self, message: Message) -> int:
        if not self.settings.max_priority:
            return 0
        raw = message.property_bytes
        if raw != self._property_bytes:
            self._property_bytes = raw
            self._property_level = self.settings.level(properties.priority(raw))
        return self._property_level


def shortest_ttl(settings: QueueSettings, state: MessageState | None) -> int:
    """Return the lesser of the queue's and the message's own time to live, NO_TTL without either."""
    own_ms = state.ttl_ms if state is not None else NO_TTL
    if own_ms == NO_TTL or settings.ttl_ms == NO_TTL:
        return max(own_ms, settings.ttl_ms)
    return min(own_ms, settings.ttl_ms)
