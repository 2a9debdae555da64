"""Publishing to queues that look at each message: for priorities, times to live, limits that reject, deduplication.

All other queues get their messages from `QueueHost.enqueue`, many at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...amqp import properties
from ..messages.message import Message, total_bytes
from ..messages.message_state import NEVER, NO_TTL, MessageState
from ..messages.ports import Journal
from ..metadata.queue_types import QUORUM
from .message_log import MessageLog
from .queue_settings import QueueSettings
from .route_target import RouteTarget
from .x_death import MAXLEN

if TYPE_CHECKING:
    from .queue import Queue


class EnqueueResult:
    """The result of publishing messages together.

    stored   whether a confirm has to wait for the journal
    refused  indexes of the messages that a queue rejected
    """

    __slots__ = ("stored", "refused")

    def __init__(self, stored: bool, refused: frozenset[int] = frozenset()) -> None:
        self.stored = stored
        self.refused = refused


DURABLE: Final = EnqueueResult(True)
ACCEPTED: Final = EnqueueResult(False)


def enqueue_per_message(
    messages: list[Message], targets: tuple[RouteTarget, ...], source: str, shared: bool, log: MessageLog | None
) -> EnqueueResult:
    """Publish messages one by one to each target, which stores copies of its own if other targets get them too.

    `shared` is True if targets other than these get them.
    """
    if len(targets) > 1:
        if not shared and source and log is not None:
            log.made(messages)
        shared = True
    stored = False
    refused: set[int] = set()
    for target in targets:
        result = target.accept(messages, source, shared)
        stored = stored or result.stored
        refused |= result.refused
    if refused:
        return EnqueueResult(stored, frozenset(refused))
    return DURABLE if stored else ACCEPTED


def store(
    journal: Journal, messages: list[Message], body_bytes: int, targets: tuple[RouteTarget, ...], numbers: list[int]
) -> list[Message]:
    """Store messages once for all durable targets, which have these numbers; return the messages to push.

    HOT: bench D.
    """
    if any(message.id for message in messages):
        messages = [message.copy_for_queue() for message in messages]  # each copy has records of its own in the journal
    stored = [message for message in messages if message.persistent]
    journal.append(numbers, stored)
    stored_bytes = body_bytes if len(stored) == len(messages) else total_bytes(stored)
    for target in targets:
        target.count_stored(len(stored), stored_bytes)
    return messages


class PerMessageEnqueue:
    """Publishes messages one by one to one queue.

    run     messages with the same priority that are stored and pushed together
    shared  other targets have the messages as well, so this queue gets copies
    stored  a confirm has to wait for the journal
    """

    __slots__ = (
        "queue",
        "settings",
        "shared",
        "source",
        "stored",
        "now_ms",
        "run",
        "level",
        "run_bytes",
        "_property_bytes",
        "_property_level",
    )

    def __init__(self, queue: Queue, source: str, shared: bool) -> None:
        self.queue = queue
        self.settings = queue.settings
        self.shared = shared
        self.source = source
        self.stored = False
        self.now_ms = queue.host.clock.now_ms()
        self.run: list[Message] = []
        self.run_bytes = 0
        self.level = 0
        self._property_bytes = b""
        self._property_level = 0

    def add(self, message: Message) -> bool:
        """Add a message; return False if the queue rejects it."""
        deduplication = self.queue.deduplication
        if deduplication is not None and deduplication.is_duplicate(message, self.now_ms):
            self.stored = True  # its confirm waits for the original, which may not be durable yet
            return True
        if self.settings.rejects_publish and not self._has_room(message):
            return False
        if deduplication is not None:
            deduplication.add(message, self.now_ms)
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
        if level != self.level or ttl_ms == 0:
            self.push()
        self.level = level
        self.run.append(message)
        self.run_bytes += message.body_bytes
        if ttl_ms == 0:
            self._hand_over(message)
        elif self.settings.rejects_publish:
            self.push()  # the limits apply to the next message
        return True

    def push(self) -> None:
        """Store and push the run."""
        if not self.run:
            return
        run, self.run = self.run, []
        run_bytes, self.run_bytes = self.run_bytes, 0
        queue = self.queue
        persistent = [message for message in run if message.persistent] if queue.number else []
        if persistent:
            queue.journal.store(persistent)
            self.stored = True
        if queue.host.message_log is not None:
            queue.host.message_log.enqueued((queue,), run, self.source)
        queue.push_at(self.level, run, run_bytes, self.shared)

    def _hand_over(self, message: Message) -> None:
        """Deliver a message with a time to live of 0 to a consumer with room, or let it expire."""
        queue, state = self.queue, message.state
        assert state is not None
        queue.host.feed(queue)  # first the messages before it
        self.push()
        deadline_ms, state.deadline_ms = state.deadline_ms, NEVER
        queue.host.feed(queue)
        state.deadline_ms = deadline_ms
        queue.ready_messages.at(state.level).timed = True
        queue.schedule_pump()

    def _has_room(self, message: Message) -> bool:
        if self.queue.takes(message.body_bytes):
            return True
        if self.settings.dead_letters_rejected:
            self.queue.outbox.add([message], MAXLEN, queued=False)
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
