"""What one queue knows of one message beyond its octets. Few messages have any of it; theirs is `Message.life`."""

from __future__ import annotations

NO_TTL = -1
NEVER = 0  # as a deadline


class MessageState:
    """ttl_ms       of the message's own `expiration`, NO_TTL where it has none: it counts from when it is queued
    deadline_ms  when it expires in this queue, by `Clock.now_ms`; NEVER where it does not
    level        where its priority puts it in this queue (`Rules.level`)
    attempts     how often it came back from a consumer
    died         its x-death headers were written by a broker's queues, not by a client
    blind        routing keys that its BCC header named, which nobody sees: it is routed by them again when it dies
    """

    __slots__ = ("ttl_ms", "deadline_ms", "level", "attempts", "died", "blind")

    def __init__(
        self,
        ttl_ms: int = NO_TTL,
        deadline_ms: int = NEVER,
        level: int = 0,
        attempts: int = 0,
        died: bool = False,
        blind: tuple[str, ...] = (),
    ) -> None:
        self.ttl_ms = ttl_ms
        self.deadline_ms = deadline_ms
        self.level = level
        self.attempts = attempts
        self.died = died
        self.blind = blind
