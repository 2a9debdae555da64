"""The queue of a direct reply-to consumer (`amq.rabbitmq.reply-to`)."""

import secrets
from typing import Any

from ...amqp.field_table import Table
from ..messages.message import Message, total_bytes
from .queue import Queue
from .queue_host import QueueHost
from .x_death import MAXLEN


class ReplyQueue(Queue):
    """A queue without bindings for direct reply-to, which exists as long as its one consumer.

    It keeps at most LIMIT replies that the consumer does not read, and drops newer ones: direct reply-to promises
    delivery at most once.
    """

    __slots__ = ("_cached",)
    internal = True
    LIMIT = 10_000  # messages

    def __init__(
        self,
        host: QueueHost,
        name: str,
        *,
        number: int = 0,
        owner: object = None,
        auto_delete: bool = False,
        arguments: Table = Table.EMPTY,
    ) -> None:
        super().__init__(host, name, number=number, owner=owner, auto_delete=auto_delete, arguments=arguments)
        self._cached: dict[tuple[int, object], dict[Any, Any]] = {}  # by cache and key, the caches with a route here

    def remember_route(self, cache: dict[Any, Any], key: object) -> None:
        """Note a cached route to this queue, so that the end of one of very many drops no other routes."""
        self._cached[id(cache), key] = cache

    def forget_routes(self) -> None:
        """Drop the cached routes to this queue, which is deleted."""
        for (_, key), cache in self._cached.items():
            cache.pop(key, None)
        self._cached.clear()

    def push(self, messages: list[Message], body_bytes: int, shared: bool = False, header_bytes: int = -1) -> None:
        fitting, body_bytes = self._fitting(messages, body_bytes)
        super().push(fitting, body_bytes, shared, header_bytes if len(fitting) == len(messages) else -1)

    def push_at(self, level: int, messages: list[Message], body_bytes: int, shared: bool = False) -> None:
        super().push_at(level, *self._fitting(messages, body_bytes), shared)

    def _fitting(self, messages: list[Message], body_bytes: int) -> tuple[list[Message], int]:
        free = max(self.LIMIT - self.ready, 0)
        if len(messages) <= free:
            return messages, body_bytes
        self.host.left(self, messages[free:], MAXLEN)
        messages = messages[:free]
        return messages, total_bytes(messages)


REPLY_TO = "amq.rabbitmq.reply-to"  # direct reply-to; prefix of the names of reply queues


def reply_queue_name() -> str:
    """Generate the name of a reply queue, of two parts as in RabbitMQ, which some clients rely on."""
    return f"{unique_name(REPLY_TO, '.')}.{secrets.token_urlsafe(16)}=="


def unique_name(prefix: str, joint: str = "-") -> str:
    """Generate a name that nobody can guess, with 16 random bytes as 22 characters."""
    return f"{prefix}{joint}{secrets.token_urlsafe(16)}"
