"""Permissions of a user in a virtual host, by names of objects and by routing keys."""

from __future__ import annotations

from ..metadata.patterns import Pattern


class Permission:
    """Patterns on names, one each for the right to configure, to write and to read."""

    __slots__ = ("configure", "write", "read", "_patterns")

    def __init__(self, configure: str, write: str, read: str) -> None:
        """Raises Invalid."""
        self.configure = configure
        self.write = write
        self.read = read
        self._patterns = {"configure": Pattern(configure), "write": Pattern(write), "read": Pattern(read)}

    def allows(self, what: str, name: str) -> bool:
        """`what` is configure, write or read."""
        return self._patterns[what].found(name)

    @property
    def exhausted(self) -> list[str]:
        """Patterns that refuse everything, as one search took too long."""
        return [pattern.text for pattern in self._patterns.values() if pattern.exhausted]


class TopicPermission:
    """Patterns on the routing keys of one topic exchange, in which `{username}` and `{vhost}` are variables.

    `{client_id}` is one for protocols that have such an id; in AMQP 0-9-1 it stands for itself, as in RabbitMQ.
    """

    __slots__ = ("write", "read", "_patterns")

    def __init__(self, user: str, vhost: str, write: str, read: str) -> None:
        """Raises Invalid."""
        self.write = write
        self.read = read
        variables = {"username": user, "vhost": vhost}
        self._patterns = {"write": Pattern(write, variables), "read": Pattern(read, variables)}

    def allows(self, what: str, routing_key: str) -> bool:
        """`what` is write or read."""
        return self._patterns[what].found(routing_key)

    @property
    def exhausted(self) -> list[str]:
        """As of a Permission."""
        return [pattern.text for pattern in self._patterns.values() if pattern.exhausted]
