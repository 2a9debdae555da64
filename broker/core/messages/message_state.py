"""The state of a message in one queue, beyond its content. Few messages have one: `Message.state`."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

NO_TTL: Final = -1
NEVER: Final = 0  # a deadline: the message does not expire
BY_QUEUE: Final = 1  # dead-lettered: its x-death headers were written by a broker's queues, not by a client
WITHOUT_CC: Final = 2  # and a configured routing key has replaced the keys of its CC header, which stays


@mypyc_attr(acyclic=True)
class MessageState:
    """The state of one message in one queue.

    ttl_ms         of the message's own `expiration`, counted from when it is queued; NO_TTL without one
    deadline_ms    when it expires in this queue, by `Clock.now_ms`; NEVER if it does not
    level          its priority level in this queue (`QueueSettings.level`)
    attempts       how often it has returned from a consumer
    dead_lettered  0, BY_QUEUE or WITHOUT_CC
    bcc_keys       routing keys of its BCC header, which was removed; they apply again when it is dead-lettered
    """

    __slots__ = ("ttl_ms", "deadline_ms", "level", "attempts", "dead_lettered", "bcc_keys")

    def __init__(
        self,
        ttl_ms: int = NO_TTL,
        deadline_ms: int = NEVER,
        level: int = 0,
        attempts: int = 0,
        dead_lettered: int = 0,
        bcc_keys: tuple[str, ...] = (),
    ) -> None:
        self.ttl_ms = ttl_ms
        self.deadline_ms = deadline_ms
        self.level = level
        self.attempts = attempts
        self.dead_lettered = dead_lettered
        self.bcc_keys = bcc_keys

    def copy(self) -> MessageState:
        return MessageState(self.ttl_ms, self.deadline_ms, self.level, self.attempts, self.dead_lettered, self.bcc_keys)

    def values(self) -> tuple[int, int, int, int, tuple[str, ...]]:
        """Return all that the journal stores of it."""
        return self.deadline_ms, self.level, self.attempts, self.dead_lettered, self.bcc_keys


def values_of(state: MessageState | None) -> object:
    """Return all that the journal stores of a state, or None without one."""
    return state.values() if state is not None else None
